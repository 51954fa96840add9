package gradstep

// #include <gradstep/c/gradstep.h>
import "C"

import "unsafe"

// HashTexts returns the 64-bit keys of texts for a [KeyedTable]: key i is the hash of prefix + texts[i], so that the word "news" of
// the prefix "site=" has the key of "site=news". The keys are the same on every system, in every version and in every language
// (stable_hash of C++; hash_texts of Python and Rust). docs/reference/c_api.md has the formula.
func HashTexts(prefix string, texts []string) ([]uint64, error) {
	var all []byte
	begins, ends := make([]C.uint64_t, len(texts)), make([]C.uint64_t, len(texts))
	for i, text := range texts {
		begins[i] = C.uint64_t(len(all))
		all = append(all, text...)
		ends[i] = C.uint64_t(len(all))
	}
	keys, begin, said := make([]uint64, len(texts)), []byte(prefix), newError()
	status := C.gradstep_hash_texts((*C.char)(unsafe.Pointer(&orOne(begin)[0])), C.uint64_t(len(begin)),
		(*C.char)(unsafe.Pointer(&orOne(all)[0])), C.uint64_t(len(all)), &orOne(begins)[0], &orOne(ends)[0],
		C.uint64_t(len(texts)), (*C.uint64_t)(unsafe.Pointer(&orOne(keys)[0])), &said)
	return keys, errorOf(status, &said)
}

// HashIntegers returns the keys of integers, whose texts are decimal: 17 with the prefix "ad=" has the key of "ad=17". See
// [HashTexts].
func HashIntegers[I ID](prefix string, integers []I) ([]uint64, error) {
	keys, begin, said := make([]uint64, len(integers)), []byte(prefix), newError()
	status := C.gradstep_hash_integers((*C.char)(unsafe.Pointer(&orOne(begin)[0])), C.uint64_t(len(begin)),
		unsafe.Pointer(&orOne(integers)[0]), dtypeOf[I](), C.uint64_t(len(integers)),
		(*C.uint64_t)(unsafe.Pointer(&orOne(keys)[0])), &said)
	return keys, errorOf(status, &said)
}
