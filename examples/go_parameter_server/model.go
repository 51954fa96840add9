package main

import (
	_ "embed"
	"math"
)

// The model: a wide part with a weight for each feature, and a deep part, in which the vectors of the features go through a hidden
// layer. Both parts together are the logit of the click.

//go:embed model.json
var modelJSON string // what every server gets

//go:embed worker.py
var workerPython string // a worker in Python, which run.go writes to a file

const (
	width  = 8  // of the vector of a feature
	hidden = 16 // units
	inputs = features * width
	// The tensor "dense" has the weights of the hidden layer, its biases, and the weights and the bias of the output.
	biases, outputs, bias = hidden * inputs, hidden*inputs + hidden, hidden*inputs + 2*hidden
	denseSize             = bias + 1
)

// batch is the impressions of a step with their weights and gradients.
type batch struct {
	impressions    []impression
	keys           []uint64  // of all features of all impressions
	wide, deep     []float32 // a number and a vector for each key
	dense          []float32
	ofWide, ofDeep []float32 // the gradients
	ofDense        []float32
	loss, truth    float64 // the mean log losses of the model and of the true probabilities
}

func batchOf(step int64) *batch {
	b := &batch{impressions: impressionsOf(step)}
	for _, x := range b.impressions {
		b.keys = append(b.keys, x.keys[:]...)
	}
	n := len(b.keys)
	b.wide, b.ofWide = make([]float32, n), make([]float32, n)
	b.deep, b.ofDeep = make([]float32, n*width), make([]float32, n*width)
	b.dense, b.ofDense = make([]float32, denseSize), make([]float32, denseSize)
	return b
}

// backward computes losses and gradients at the weights of the batch.
func (b *batch) backward() {
	for i, x := range b.impressions {
		in, ofIn := b.deep[i*inputs:(i+1)*inputs], b.ofDeep[i*inputs:(i+1)*inputs]
		probability, active := forward(b.wide[i*features:(i+1)*features], in, b.dense)
		wrong := float32(probability)
		if x.clicked {
			wrong--
		}
		b.loss += logLoss(probability, x.clicked) / impressionsInAStep
		b.truth += logLoss(x.probability, x.clicked) / impressionsInAStep
		for k := 0; k < features; k++ {
			b.ofWide[i*features+k] = wrong
		}
		wrong /= impressionsInAStep // the dense weights are in all impressions: their mean
		b.ofDense[bias] += wrong
		for h, a := range active {
			b.ofDense[outputs+h] += wrong * a
			if a == 0 {
				continue
			}
			back := wrong * b.dense[outputs+h]
			b.ofDense[biases+h] += back
			weights, ofWeights := b.dense[h*inputs:(h+1)*inputs], b.ofDense[h*inputs:(h+1)*inputs]
			for j := range weights {
				ofWeights[j] += back * in[j]
				ofIn[j] += impressionsInAStep * back * weights[j]
			}
		}
	}
}

// forward returns the probability of a click, and the hidden units, after relu.
func forward(wide, in, dense []float32) (probability float64, active [hidden]float32) {
	logit := dense[bias]
	for _, weight := range wide {
		logit += weight
	}
	for h := range active {
		sum := dense[biases+h]
		for j, x := range in {
			sum += dense[h*inputs+j] * x
		}
		if sum > 0 {
			active[h] = sum
			logit += dense[outputs+h] * sum
		}
	}
	return 1 / (1 + math.Exp(-float64(logit))), active
}

func logLoss(probability float64, clicked bool) float64 {
	if clicked {
		return -math.Log(probability)
	}
	return -math.Log(1 - probability)
}
