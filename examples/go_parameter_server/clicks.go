package main

import (
	"fmt"
	"math"

	"gradstep.org/gradstep"
)

// Made-up ad impressions, the same as in examples/tutorials/click_through. Many users appear once, and ads come and go.

const (
	impressionsInAStep = 100
	features           = 5
)

// impression is one ad shown to one user. The keys are hashes of texts such as "site=17".
type impression struct {
	site, ad    uint64
	user        int
	keys        [features]uint64
	clicked     bool
	probability float64 // of the click, which the model has to find
}

// impressionsOf returns the impressions of a step. They are the same on every system. There are 40 sites and, at any time, 100 ads.
func impressionsOf(step int64) []impression {
	draw := newTwister(uint64(step) + 1)
	uniform := func() float64 { return float64(draw.next()>>11) * 0x1p-53 }
	out := make([]impression, impressionsInAStep)
	for i := range out {
		x := &out[i]
		x.site = draw.next() % 40
		x.ad = uint64(step)/20 + draw.next()%100
		x.user = int(1e6 * (uniform() * uniform()))
		x.keys = keysOf(x.site, x.ad, x.user)
		logit := -2 + effectOf(x.keys[1]) + 1.5*effectOf(x.keys[2]) + effectOf(x.keys[3])
		x.probability = 1 / (1 + math.Exp(-logit))
		x.clicked = uniform() < x.probability
	}
	return out
}

func keysOf(site, ad uint64, user int) (keys [features]uint64) {
	copy(keys[:], hashesOf("bias", fmt.Sprintf("site=%d", site), fmt.Sprintf("ad=%d", ad), fmt.Sprintf("site=%d,ad=%d", site, ad),
		fmt.Sprintf("user=%d", user)))
	return keys
}

// effectOf is the true effect of a feature on the click, in [-1, 1].
func effectOf(key uint64) float64 { return float64(stableHash(key)>>11)*0x1p-52 - 1 }

func hashesOf(texts ...string) []uint64 {
	hashes, err := gradstep.HashTexts("", texts)
	if err != nil {
		panic(err) // no memory
	}
	return hashes
}

// stableHash is gradstep::stable_hash of a number: the hash that divides rows between servers.
func stableHash(key uint64) uint64 {
	z := key + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// twister is std::mt19937_64 of C++.
type twister struct {
	state [312]uint64
	at    int
}

func newTwister(seed uint64) *twister {
	t := &twister{at: 312}
	t.state[0] = seed
	for i := 1; i < 312; i++ {
		t.state[i] = 6364136223846793005*(t.state[i-1]^t.state[i-1]>>62) + uint64(i)
	}
	return t
}

func (t *twister) next() uint64 {
	if t.at == 312 {
		for i := range t.state {
			x := t.state[i]&0xffffffff80000000 | t.state[(i+1)%312]&0x7fffffff
			t.state[i] = t.state[(i+156)%312] ^ x>>1 ^ x&1*0xb5026f5aa96619e9
		}
		t.at = 0
	}
	x := t.state[t.at]
	t.at++
	x ^= x >> 29 & 0x5555555555555555
	x ^= x << 17 & 0x71d67fffeda60000
	x ^= x << 37 & 0xfff7eee000000000
	return x ^ x>>43
}
