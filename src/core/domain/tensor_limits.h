// The limits of tensors that requests and answers bring as bare bytes. Apart from limits.h, because
// few need them.
#pragma once

#include "core/base/units.h"

namespace lambent::limits {

// What the inputs of one run of a kernel function may have together, and its outputs, where a
// client of the Open Inference Protocol asks. A batch of several requests is one run.
constexpr Bytes kTensorPayload = Bytes::mib(64);
// Bodies of such requests that are longer than an event, until they run, and of such answers until
// clients have read them.
constexpr Bytes kTensorsUnderWay = Bytes::mib(1024);

}  // namespace lambent::limits
