// What travels between workflows and kernel functions: inputs by name become a request in the words
// of the Open Inference Protocol v2, and its answer outputs by name. Pure functions; used by the
// worker's workflows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "decide/workflow/graph.h"

namespace lambent::workflow {

// The input is an object of tensors by name, each of them {"object": ID}, a list of numbers (nested
// or not), one number, bytes in base64, or {"datatype", "shape", "data"}. INVALID_ARGUMENT names
// the one that is something else; what fits the function's buffers is for the executor to say.
// Outputs come as JSON, as objects, or as objects that may stay on the device.
enum class KernelOutputs : uint8_t { kByValue, kObjects, kOnDevice };
Result<std::string> kernel_request(const Value& input, KernelOutputs outputs);

// How many elements of their first dimension such inputs bring, as the first that has a shape says;
// 0: none has one.
uint64_t elements_of(const Value& input);

// {"y": {"object": ID, "datatype": "FP32", "shape": [4]}}, which may go into the next function as
// it is, or with "data" if it came by value. INTERNAL for an answer in other words.
Result<Value> kernel_outputs(std::string_view answer);

// The components whose inputs, or lists of inputs, have something of this one's result, by number:
// sorted, each once. Nothing where the output of the workflow has.
std::optional<std::vector<uint32_t>> inner_readers_of(const Workflow& workflow, uint32_t component);
// The same of the workflow's input.
std::optional<std::vector<uint32_t>> inner_readers_of_input(const Workflow& workflow);

// Every {"object": ID} anywhere in a value, each once.
std::vector<ObjectId> objects_in(const Value& value);

}  // namespace lambent::workflow
