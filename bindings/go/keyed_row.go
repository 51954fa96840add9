package gradstep

// #include <gradstep/c/gradstep.h>
import "C"

import "runtime/cgo"

// rowJudge judges a row that C shows it.
type rowJudge func(*C.gradstep_row) float64

// gradstepJudge is what C calls for each row. It is in a file of its own, because the C code of a file with an exported function
// must not define functions.
//
//export gradstepJudge
func gradstepJudge(host C.uintptr_t, row *C.gradstep_row) C.double {
	return C.double(cgo.Handle(host).Value().(rowJudge)(row))
}
