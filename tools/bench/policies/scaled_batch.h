// A recorded step as it might be with another batch: scaled, not measured.
//
// A trace does not say which sizes are of the batch. What follows from its structure:
//
//   stays    persistent tensors, weights and optimizer states, and the gradient that an operation reads to
//            update one of the same bytes; also what has the bytes of one of these in an operation whose
//            largest tensor is at least 16 times as large: batch normalisation's statistics and their
//            gradients
//   scales   everything else, and a persistent tensor that an operation reads beside another one of the same
//   bytes
//            that is not persistent, both of them more than half of its largest: broadcast over the batch, as
//            G10's BERT and ViT have their biases; with it its gradient
//
// An operation that names anything that scales takes its time, flops and workspace times the factor; an
// update of what stays is as it was. Real kernels do not take times in proportion: small batches take longer
// than this says.
#pragma once

#include "liballoc/wire/trace.h"

namespace terrace::bench {

// `factor` > 0. Sizes that were whole pages of 4,096 bytes are rounded up to such ones, others to bytes. The
// name gets " x FACTOR".
wire::Trace with_scaled_batch(wire::Trace trace, double factor);

}  // namespace terrace::bench
