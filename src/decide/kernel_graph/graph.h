// KernelGraph: a kernel function as its author wrote it: buffers, and the kernels that run over
// them. A value; read from JSON when deployed, validated against its bundles, run by the executor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/domain/inference.h"
#include "core/domain/tensor_type.h"

namespace lambent::kernel_graph {

enum class BufferRole : uint8_t {
  kInput,      // comes with each request; never written
  kConstant,   // the same for every request: a file; never written
  kTemporary,  // undefined at the start of a request
  kOutput,     // undefined at the start of a request; becomes an object, or goes into the answer
  kInOut,      // comes with each request, in a copy of its own, and goes out again
};
std::string_view name_of(BufferRole role);  // "input", "constant", "temporary", "output", "in_out"

struct Buffer {
  std::string name;
  BufferRole role = BufferRole::kTemporary;
  TensorType type;
  // Of a constant, one of the two: its content, raw, in a file of the package or, by an absolute
  // path, of what the function mounts; or the bytes of one element, which all of its elements have.
  std::string file;
  std::string fill;

  bool operator==(const Buffer&) const = default;
};

// What a kernel does to a buffer; what depends on what follows from it.
enum class Access : uint8_t { kRead, kWrite, kReadWrite };
std::string_view name_of(Access access);  // "read", "write", "read_write"
// What an author means who does not say: inputs and constants are read, outputs are written, the
// others may be both.
Access default_access(BufferRole role);

struct BufferArgument {
  uint32_t buffer = 0;  // index
  uint64_t offset_bytes = 0;
  Access access = Access::kReadWrite;

  bool operator==(const BufferArgument&) const = default;
};
// Numbers passed by value, as the bytes that the kernel's parameter has: one, or as many as a
// parameter such as float2 holds. Of kBytes: the parameter's bytes as they are.
struct LiteralArgument {
  DataType datatype = DataType::kInt32;
  std::string bytes;

  bool operator==(const LiteralArgument&) const = default;
};
using Argument = std::variant<BufferArgument, LiteralArgument>;

struct Extent {
  uint32_t x = 1, y = 1, z = 1;
  bool operator==(const Extent&) const = default;
};

struct Launch {
  // Its folder in the package, or "lambent:NAME" for NAME among the kernels that come with Lambent.
  std::string bundle;
  std::string kernel;
  Extent grid;   // blocks
  Extent block;  // threads of a block
  uint32_t shared_bytes = 0;
  std::vector<Argument> arguments;

  bool operator==(const Launch&) const = default;
};

constexpr uint32_t kNoFlag = UINT32_MAX;

// Steps that are done several times, each round after the one before; or those of one batch size.
struct Repeat;
using Step = std::variant<Launch, Repeat>;
struct Repeat {
  uint64_t times = 1;  // at most, if there is a flag
  // A buffer whose first 32 bits a kernel sets to something other than zero when the round was the
  // last one. They are zero before the first round.
  uint32_t until = kNoFlag;
  std::vector<Step> steps;
  // A variant, if not zero: the steps are done, once, in requests of at most so many elements for
  // which no smaller variant is enough.
  uint64_t batch = 0;

  bool operator==(const Repeat& other) const;
};

struct KernelGraph {
  std::vector<Buffer> buffers;
  // In an order in which they could run one after the other; those that do not depend on each other
  // may run at the same time. Or all of them are variants, in ascending order: then the first
  // dimension of what comes with a request and goes out again is that of the last one, and requests
  // bring fewer elements as well.
  std::vector<Step> steps;
  // Whether and how requests are put together; only of a graph with variants.
  std::optional<BatchTimes> batches;

  bool operator==(const KernelGraph&) const = default;
};

// The sizes of its variants, ascending; empty: it has none, and requests have the buffers' shapes.
std::vector<uint64_t> variants_of(const KernelGraph& graph);

// Whether a loop among the steps, or in one of them, ends by a flag. For such a graph the device
// needs the kernels of a bundle that is built in, whether or not the graph names it.
bool has_flags(const std::vector<Step>& steps);
constexpr std::string_view kLoopBundle = "lambent:loops";

// Whether a path stays in the package: relative, without empty parts, and without dots to climb
// with.
bool stays_in_package(std::string_view path);
// Whether this can name a bundle: such a path, or "lambent:" and a name without slashes.
bool names_bundle(std::string_view bundle);

// Whether each request brings this buffer, and whether its answer holds it.
constexpr bool is_input(BufferRole role) {
  return role == BufferRole::kInput || role == BufferRole::kInOut;
}
constexpr bool is_output(BufferRole role) {
  return role == BufferRole::kOutput || role == BufferRole::kInOut;
}

}  // namespace lambent::kernel_graph
