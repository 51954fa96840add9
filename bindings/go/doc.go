// Package gradstep calls the C library of gradstep: optimizer update rules at the speed of memory.
//
// An optimizer is described by a JSON string, whose keys docs/reference/configuration_keys.md lists:
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
// A [Parameter] owns values, state and clock. Several of them, each with an optimizer of its own, are updated in one call by
// a [Batch]. An [Updater] updates values and state in memory of the caller's.
//
// Different parameters, batches without a parameter in common, and updaters may be used by different goroutines at the same
// time; one of them by one goroutine at a time, unless its comment says more.
//
// A copy of a handle is the same handle. One you do not close is released by the garbage collector when no copy of it is left; Go
// does not know how much memory of the library's that is, so close what is large.
//
// The library is found by the linker. Where it is not installed in one of the system's folders, say where it is:
//
//	export CGO_CFLAGS="$(pkg-config --cflags gradstep-c)" CGO_LDFLAGS="$(pkg-config --libs gradstep-c)"
package gradstep
