// RequestCodec: reads the requests to one kernel function, and writes their answers, in the words
// of the Open Inference Protocol v2 or as bare bytes. A value without state that changes; any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "decide/kernel_graph/batch_payload.h"
#include "decide/kernel_graph/graph.h"

namespace lambent::kernel_graph {

constexpr std::string_view kJsonContentType = "application/json";
constexpr std::string_view kRawContentType = "application/octet-stream";

struct RequestInput {
  uint32_t buffer = 0;             // index in the graph
  std::optional<ObjectId> object;  // the content is this object; its type is still to be checked
  std::string_view bytes;          // else: the content, exactly RequestCodec::size_of()
  uint32_t number = 0;             // in the request's own list
  // Of a graph with variants: which of the elements that run it brings. Else both are 0.
  uint64_t first = 0;
  uint64_t elements = 0;
};

struct RequestOutput {
  uint32_t buffer = 0;  // index in the graph
  bool as_object = false;
  bool on_device = false;  // the object, which may stay there with no copy on the host
  bool base64 = false;     // by value, in base64
  // As those of an input: of which elements.
  uint64_t first = 0;
  uint64_t elements = 0;
};

// One of several requests that run together.
struct RequestPart {
  std::string id;  // as Request has it
  bool raw = false;
  size_t outputs = 0;  // how many of the outputs are its own
};

struct Request {
  // Of a graph with variants: the elements of the first dimension that it brings, and the variant
  // that runs. Else both are 0.
  uint64_t elements = 0;
  uint64_t variant = 0;
  // Every input and in_out buffer, in the graph's order. Bytes lie in the payload or in `decoded`.
  // Of a batch, those of one part after the other.
  std::vector<RequestInput> inputs;
  // What the caller wants, in its order; the rest need not leave the device.
  std::vector<RequestOutput> outputs;
  std::string id;    // the caller's own name of the request; comes back in the answer
  bool raw = false;  // the answer is bare bytes
  // Of several requests that run together, in their order. Empty: it is one request.
  std::vector<RequestPart> parts;
  std::vector<std::unique_ptr<char[]>> decoded;

  bool is_batch() const { return !parts.empty(); }
};

// One for each of Request::outputs, in that order.
struct AnswerOutput {
  std::optional<ObjectId> object;  // what it became, if it was wanted as one
  std::string_view bytes;          // else: its content
};

// A JSON request:
//
//   {"id": "mine",
//    "inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4]},
//               {"name": "y", "parameters": {"object": "6f1c...-....0"}}],
//    "outputs": [{"name": "z", "parameters": {"object": true}}, {"name": "s"}]}
//
// "data" is a list, flat or nested as the shape is, or a string: the tensor's bytes in base64, the
// only form of FP16, BF16 and BYTES. "datatype" and "shape" may be left out; what is said must be
// the buffer's. Whole numbers have no fraction and no exponent, BOOL is true, false, 1 or 0; a
// number that the datatype cannot hold is refused, one between two that it can hold is rounded to
// the nearest; what JSON has no number for is "NaN", "Infinity" and "-Infinity". "outputs" may be
// left out: then all come by value; "parameters" {"object": true} asks for an object, {"base64":
// true} for bytes in base64. With {"object": true, "keep": "device"} the object need not be copied
// to the host before the answer; "host" is what holds without. A request without "outputs" may have
// such "parameters" itself: they hold for every output.
//
// A raw request is the bytes of all inputs, one after the other in the graph's order; so is its
// answer.
//
// Where the graph has variants, the first dimension of all inputs of a request is one number of
// elements, from 1 to the largest variant; without a "shape" it is that one. The answer has as
// many. Kernels read objects where they lie, where that is the number of a variant; else objects
// are copied to the rows of the next larger one.
//
// Requests to such a graph may come several in one payload (batch_payload.h), which run together:
// their elements lie one after the other, in the order of the requests, and are at most those of
// the largest variant. Each has its answer, as if it had come by itself. Objects are copied there,
// and so may have any number of elements.
class RequestCodec {
 public:
  // Copies what it needs; the graph is valid.
  explicit RequestCodec(const KernelGraph& graph);

  // The buffers that each request brings, and those that an answer may hold, by index and in the
  // graph's order.
  const std::vector<uint32_t>& inputs() const { return inputs_; }
  const std::vector<uint32_t>& outputs() const { return outputs_; }

  // What so many elements of a buffer are that comes with requests or goes out again; 0: all of it.
  Bytes size_of(uint32_t buffer, uint64_t elements) const;
  TensorType type_of(uint32_t buffer, uint64_t elements) const;
  // Where an element begins in it.
  Bytes offset_of(uint32_t buffer, uint64_t first) const;

  // An empty content type is JSON; parameters such as a charset are read over. Answers
  // INVALID_ARGUMENT, naming the place, such as "inputs[1].data[7]", and OUT_OF_RANGE if the
  // outputs that are wanted by value cannot go into one answer (limits::kResponsePayload). The
  // payload must outlive the request.
  Result<Request> decode(std::string_view content_type, std::string_view payload) const;

  // The payload; its content type is content_type(request). OUT_OF_RANGE if it is longer than
  // limits::kResponsePayload.
  Result<std::string> encode(const Request& request, std::span<const AnswerOutput> outputs) const;
  static std::string_view content_type(const Request& request) {
    if (request.is_batch()) return kBatchContentType;
    return request.raw ? kRawContentType : kJsonContentType;
  }

 private:
  friend class RequestReader;

  struct Tensor {
    std::string name;
    BufferRole role = BufferRole::kTemporary;
    TensorType type = {};
    uint64_t size_bytes = 0;
    uint64_t elements = 0;
    uint32_t input = 0;     // its number among the inputs, if it is one
    uint32_t output = 0;    // its number among the outputs, if it is one
    std::string json_head;  // of an output in an answer: its name, datatype and shape
  };

  static Tensor tensor_of(const Buffer& buffer);
  // The tensor of so many elements of its first dimension.
  static Tensor with_elements(const Tensor& tensor, uint64_t elements);
  uint64_t most_elements() const { return variants_.empty() ? 0 : variants_.back(); }
  void choose_variant(Request& request) const;
  // One that says of no input how many elements it has brings the most.
  Result<Request> decode_one(std::string_view content_type, std::string_view payload) const;
  Result<Request> decode_batch(std::string_view payload) const;
  Result<Request> decode_raw(std::string_view payload) const;
  Result<std::string> encode_one(const RequestPart& part, std::span<const RequestOutput> wanted,
                                 std::span<const AnswerOutput> outputs) const;
  static void append_output(const Tensor& tensor, const RequestOutput& wanted,
                            const AnswerOutput& output, std::string& text);

  std::vector<Tensor> tensors_;  // by buffer
  std::vector<uint64_t> variants_;
  std::map<std::string, uint32_t, std::less<>> by_name_;
  std::vector<uint32_t> inputs_;
  std::vector<uint32_t> outputs_;
};

}  // namespace lambent::kernel_graph
