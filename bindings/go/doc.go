// Package gradstep runs optimizer steps (Adam, FTRL and many more) by the C library of gradstep.
//
// A JSON string, the configuration, describes an optimizer. docs/reference/configuration_keys.md lists its keys:
//
//	const adamW = `{
//	    "rule": {"name": "adam"},
//	    "regularizer": {"name": "decoupled", "rate": 0.01},
//	    "schedule": {"name": "constant", "rate": 0.001}
//	}`
//	weights, err := gradstep.NewParameter(adamW, initial)
//	if err != nil {
//	    return err // for example "rule.beta1: 1.5 is out of range; expected [0, 1)"
//	}
//	defer weights.Close()
//	err = weights.Update(gradient)
//
// A [Parameter] owns values, state and clock. A [Batch] updates several parameters, each with its own optimizer, in one call. A
// [Table] is an embedding table, which several goroutines can update. The rows of a [KeyedTable] have 64-bit keys. An [Updater]
// updates values and state in your own memory. A [Server] and a [Worker] train tables and parameters on several machines.
//
// Objects are not safe for concurrent use, unless their comments say so. Different goroutines can use different parameters,
// different updaters, and batches that share no parameter.
//
// A copy of a handle is the same handle. The garbage collector releases a handle that you do not close, when no copy is left. It
// does not know how much memory of the library a handle holds, so close large objects yourself.
//
// The linker finds the library in the system's folders. If you installed it elsewhere, set these variables:
//
//	export CGO_CFLAGS="$(pkg-config --cflags gradstep-c)" CGO_LDFLAGS="$(pkg-config --libs gradstep-c)"
package gradstep
