#pragma once
/// Deep Gradient Compression: the steps of `dgc_momentum`, parameters and models that send their
/// largest gradients, and the messages.
#include <gradstep/compression/compressed_model.hpp>
#include <gradstep/compression/compressed_parameter.hpp>
#include <gradstep/compression/dgc_step.hpp>
#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/compression/top_k.hpp>
