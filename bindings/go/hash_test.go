package gradstep

import (
	"math"
	"reflect"
	"testing"
)

// The keys of gs::stable_hash, computed by C++ (test/core/stable_hash.cpp, test/c/keyed_tables.cpp).
func TestHashes(t *testing.T) {
	keys, err := HashTexts("", []string{"news", "größe", ""})
	if want := []uint64{0xf2d3fb1a158dd4f2, 0xa9b541425f6e8284}; err != nil || !reflect.DeepEqual(keys[:2], want) {
		t.Fatal(keys, err)
	}
	prefixed, err := HashTexts("ne", []string{"ws"})
	if err != nil || prefixed[0] != keys[0] {
		t.Error(prefixed, err)
	}
	numbers, err := HashIntegers("site=", []int64{8, math.MinInt64})
	texts, _ := HashTexts("site=", []string{"8", "-9223372036854775808"})
	if err != nil || !reflect.DeepEqual(numbers, texts) || numbers[0] != 8231492868206863162 {
		t.Error(numbers, texts, err)
	}
	if none, err := HashTexts("site=", nil); err != nil || len(none) != 0 {
		t.Error(none, err)
	}
}
