// blas_bench: the built-in linear algebra by our own kernels (kernels/blas.cu) and by cuBLAS, on
// the driver that is loaded: what each takes, and whether their results are within the tolerance
// (gpu/cublas/call.h) of each other and of the definition. Ends with 1 if one is not.
//
// blas_bench --cublas FILE... [--kernels FOLDER] [--edge N] [--quick]: the first library that works
// is taken; FOLDER is the bundle `blas`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/time.h"
#include "gpu/bundle/bundle.h"
#include "gpu/cublas/handle.h"
#include "gpu/cublas/testing/testing.h"
#include "gpu/cuda/device.h"

namespace {

using namespace lambent;
using namespace lambent::cublas;
using Json = nlohmann::ordered_json;

struct Settings {
  std::vector<std::string> libraries;
  std::string kernels = LAMBENT_BINARY_DIR "/share/lambent/kernels/blas";
  int edge = 1024;
  bool quick = false;
};

constexpr Bytes kWorkspace = Bytes::mib(4);  // as an executor's functions have it
constexpr size_t kChecked = 500;             // elements of a result, about

double microseconds_since(Instant begin) {
  return std::chrono::duration<double, std::micro>(SystemClock().now() - begin).count();
}

// Our kernels, from the first image that the driver takes.
Result<cuda::Module> load_kernels(const cuda::Driver& driver, const cuda::Context& context,
                                  const std::string& folder) {
  ASSIGN_OR_RETURN(const auto capability, context.compute_capability());
  ASSIGN_OR_RETURN(const auto bundle, bundle::Bundle::open(folder));
  Error last{ErrorCode::kFailedPrecondition, folder + " has no image for this device"};
  for (const auto& image : bundle.images_for(capability.first, capability.second)) {
    ASSIGN_OR_RETURN(const std::string bytes, read_file(image.path, size_t{1} << 28));
    auto module = cuda::Module::load(driver, bytes);
    if (module.ok()) return module;
    last = module.error();
  }
  return last;
}

// A launch, its operands on the device, and both ways to do it.
class Side {
 public:
  static Result<Side> make(const cuda::Driver& driver, const cuda::Module& kernels,
                           const RandomLaunch& made) {
    Side side(driver, made);
    const auto call = call_of(side.launch_);
    if (!call) return Error{ErrorCode::kInternal, "no call of cuBLAS"};
    side.call_ = *call;
    ASSIGN_OR_RETURN(side.function_, kernels.function(side.launch_.kernel));
    std::mt19937 random(1);
    for (const size_t count : {made.size_a, made.size_b, made.size_c}) {
      side.contents_.push_back(random_numbers(made.letter, count, random));
      ASSIGN_OR_RETURN(auto buffer, cuda::DeviceBuffer::allocate(
                                        driver, Bytes(side.contents_.back().size() + 1)));
      side.buffers_.push_back(std::move(buffer));
      RETURN_IF_ERROR(side.buffers_.back().write(std::as_bytes(std::span(side.contents_.back()))));
    }
    return side;
  }

  Result<void> by_kernel(CUstream stream) {
    std::vector<CUdeviceptr> addresses;
    addresses.reserve(launch_.arguments.size());
    std::vector<void*> parameters;
    for (size_t i = 0; i < launch_.arguments.size(); ++i) {
      const auto* literal = std::get_if<kernel_graph::LiteralArgument>(&launch_.arguments[i]);
      if (literal == nullptr) addresses.push_back(address(static_cast<uint8_t>(i)));
      parameters.push_back(literal != nullptr ? const_cast<char*>(literal->bytes.data())
                                              : static_cast<void*>(&addresses.back()));
    }
    cuda::KernelNode node;
    node.function = function_;
    node.grid = {launch_.grid.x, launch_.grid.y, launch_.grid.z};
    node.block = {launch_.block.x, launch_.block.y, launch_.block.z};
    node.parameters = parameters;
    return cuda::launch(driver_, node, stream);
  }
  Result<void> by_cublas(Handle& handle, const Workspace& workspace, CUstream stream) {
    const auto operand = [&](uint8_t argument) {
      return std::holds_alternative<kernel_graph::BufferArgument>(launch_.arguments[argument])
                 ? address(argument)
                 : 0;
    };
    return handle.run(
        call_, {operand(call_.argument_a), operand(call_.argument_b), operand(call_.argument_c)},
        workspace, stream);
  }
  // As it was made.
  Result<void> reset() { return buffers_[2].write(std::as_bytes(std::span(contents_[2]))); }
  Result<std::string> result() const {
    std::string content(contents_[2].size(), '\0');
    RETURN_IF_ERROR(buffers_[2].read(std::as_writable_bytes(std::span(content))));
    return content;
  }
  Expected expected() const {
    return expected_of(made_, contents_[0], contents_[1], contents_[2],
                       std::max<size_t>(1, made_.size_c / kChecked));
  }

 private:
  Side(const cuda::Driver& driver, const RandomLaunch& made)
      : driver_(driver), made_(made), launch_(launch_of(made)) {}
  CUdeviceptr address(uint8_t argument) const {
    const auto& buffer = std::get<kernel_graph::BufferArgument>(launch_.arguments[argument]);
    return buffers_[made_.has_a() ? buffer.buffer : buffer.buffer + 1].pointer();
  }

  const cuda::Driver& driver_;
  RandomLaunch made_;
  kernel_graph::Launch launch_;
  Call call_;
  CUfunction function_ = nullptr;
  std::vector<std::string> contents_;
  std::vector<cuda::DeviceBuffer> buffers_;
};

RandomLaunch gemm(char letter, int m, int n, int k, int how_a, int how_b) {
  RandomLaunch made;
  made.letter = letter;
  made.routine = "gemm";
  made.m = m, made.n = n, made.k = k, made.how_a = how_a, made.how_b = how_b;
  made.stride_a = how_a == 0 ? k : m;
  made.stride_b = how_b == 0 ? n : k;
  made.stride_c = n;
  made.size_a = static_cast<size_t>(m) * k;
  made.size_b = static_cast<size_t>(k) * n;
  made.size_c = static_cast<size_t>(m) * n;
  made.alpha = 1.5;
  return made;
}
RandomLaunch gemv(char letter, int m, int n, int how) {
  RandomLaunch made;
  made.letter = letter;
  made.routine = "gemv";
  made.m = m, made.n = made.stride_a = n, made.how_a = how;
  made.size_a = static_cast<size_t>(m) * n;
  made.size_b = static_cast<size_t>(how == 0 ? n : m);
  made.size_c = static_cast<size_t>(how == 0 ? m : n);
  made.alpha = 1.5, made.beta = 0.5;
  return made;
}
RandomLaunch axpy(char letter, int n) {
  RandomLaunch made;
  made.letter = letter;
  made.routine = "axpy";
  made.n = n;
  made.size_b = made.size_c = static_cast<size_t>(n);
  made.alpha = 1.5, made.beta = 1;
  return made;
}

std::vector<RandomLaunch> launches(int edge) {
  std::vector<RandomLaunch> all;
  for (const char letter : {'s', 'd', 'c'}) {
    all.push_back(gemm(letter, edge, edge, edge, 0, 0));
    all.push_back(gemm(letter, edge, edge, edge, 1, letter == 'c' ? 2 : 1));
    all.push_back(gemm(letter, 64, 64, 4 * edge, 0, 0));
    all.push_back(gemv(letter, 4 * edge, 4 * edge, 0));
    all.push_back(gemv(letter, 4 * edge, 4 * edge, letter == 'c' ? 2 : 1));
    all.push_back(axpy(letter, 16 * edge * edge));
  }
  return all;
}

std::string name_of(const RandomLaunch& made) {
  std::string name = made.letter + made.routine + " ";
  if (made.routine == "axpy") return name + std::to_string(made.n);
  name += std::to_string(made.m) + "x" + std::to_string(made.n);
  if (made.routine == "gemm") name += "x" + std::to_string(made.k);
  name += " " + std::string(1, "NTC"[made.how_a]);
  return made.routine == "gemm" ? name + "NTC"[made.how_b] : name;
}

// How far two results are apart, as a share of how far they may be.
double distance(const RandomLaunch& made, const Expected& expected, const std::string& one,
                const std::string* other) {
  double furthest = 0;
  for (size_t i = 0; i < made.size_c; ++i) {
    const double tolerance = expected.tolerances[i] * (other != nullptr ? 2 : 1);
    if (!(tolerance < std::numeric_limits<double>::infinity())) continue;
    const auto at = [&](const std::string& bytes) {
      return number_at(made.letter, bytes.data() + i * made.number_bytes());
    };
    const double apart = std::abs(at(one) - (other != nullptr ? at(*other) : expected.values[i]));
    // Not a number is beyond every tolerance.
    if (!(apart <= tolerance)) return std::max(2.0, apart / tolerance);
    if (tolerance > 0) furthest = std::max(furthest, apart / tolerance);
  }
  return furthest;
}

Result<Json> compare(const RandomLaunch& made, Side& side, Handle& handle,
                     const cuda::Stream& stream, const Workspace& workspace, bool quick) {
  using Way = std::function<Result<void>()>;
  const std::array<Way, 2> ways = {[&] { return side.by_kernel(stream.get()); },
                                   [&] { return side.by_cublas(handle, workspace, stream.get()); }};
  std::array<std::string, 2> results;
  for (size_t way = 0; way < 2; ++way) {
    RETURN_IF_ERROR(side.reset());
    RETURN_IF_ERROR(ways[way]());
    RETURN_IF_ERROR(stream.synchronize());
    ASSIGN_OR_RETURN(results[way], side.result());
  }
  // In turns, several launches at a time, so that the host is not what is measured.
  const int turns = quick ? 5 : 15, at_once = quick ? 3 : 10;
  std::array<std::vector<double>, 2> times;
  for (int turn = 0; turn < turns; ++turn) {
    for (size_t way = 0; way < 2; ++way) {
      const Instant begin = SystemClock().now();
      for (int i = 0; i < at_once; ++i) RETURN_IF_ERROR(ways[way]());
      RETURN_IF_ERROR(stream.synchronize());
      times[way].push_back(microseconds_since(begin) / at_once);
    }
  }
  const auto median = [](std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  const Expected expected = side.expected();
  const double ours = median(times[0]), theirs = median(times[1]);
  return Json{{"launch", name_of(made)},
              {"ours_us", ours},
              {"cublas_us", theirs},
              {"ours_over_cublas", ours / theirs},
              {"ours_of_tolerance", distance(made, expected, results[0], nullptr)},
              {"cublas_of_tolerance", distance(made, expected, results[1], nullptr)},
              {"apart_of_tolerance", distance(made, expected, results[0], &results[1])}};
}

Result<int> run(const Settings& settings) {
  ASSIGN_OR_RETURN(const auto driver, cuda::Driver::load());
  ASSIGN_OR_RETURN(const auto context, cuda::Context::create(*driver, 0));
  ASSIGN_OR_RETURN(const auto kernels, load_kernels(*driver, context, settings.kernels));
  std::optional<Library> library;
  std::unique_ptr<Handle> handle;
  Error last{ErrorCode::kUnavailable, "no library was named"};
  for (const std::string& path : settings.libraries) {
    auto loaded = Library::load(path);
    if (loaded.ok()) library.emplace(std::move(*loaded));
    auto made = loaded.ok() ? Handle::create(*driver, *library)
                            : Result<std::unique_ptr<Handle>>(loaded.error());
    if (made.ok()) {
      handle = std::move(*made);
      break;
    }
    last = made.error();
  }
  if (handle == nullptr) return last.with_context("cuBLAS");
  ASSIGN_OR_RETURN(const auto stream, cuda::Stream::create(*driver));
  ASSIGN_OR_RETURN(const auto memory, cuda::DeviceBuffer::allocate(*driver, kWorkspace));
  const Workspace workspace{memory.pointer(), memory.size()};

  std::printf("%-26s %12s %12s %8s   of the tolerance: ours, cuBLAS, apart\n", "", "ours us",
              "cuBLAS us", "ratio");
  Json rows = Json::array();
  int beyond = 0;
  for (const RandomLaunch& made : launches(settings.edge)) {
    ASSIGN_OR_RETURN(auto side, Side::make(*driver, kernels, made));
    ASSIGN_OR_RETURN(Json row, compare(made, side, *handle, stream, workspace, settings.quick));
    const auto of = [&](const char* key) { return row[key].get<double>(); };
    const double furthest =
        std::max({of("ours_of_tolerance"), of("cublas_of_tolerance"), of("apart_of_tolerance")});
    beyond += furthest > 1;
    std::printf("%-26s %12.1f %12.1f %8.2f   %.3f %.3f %.3f%s\n", name_of(made).c_str(),
                of("ours_us"), of("cublas_us"), of("ours_over_cublas"), of("ours_of_tolerance"),
                of("cublas_of_tolerance"), of("apart_of_tolerance"),
                furthest > 1 ? "  BEYOND" : "");
    rows.push_back(std::move(row));
  }
  const Json result = {{"name", "blas"},
                       {"cublas_version", handle->version()},
                       {"edge", settings.edge},
                       {"beyond_tolerance", beyond},
                       {"launches", std::move(rows)}};
  std::printf("%s\n", result.dump().c_str());
  return beyond == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  CLI::App app("Built-in linear algebra by our kernels and by cuBLAS.");
  Settings settings;
  app.add_option("--cublas", settings.libraries, "A libcublas.so; of several, the first that works")
      ->required()
      ->allow_extra_args(false);
  app.add_option("--kernels", settings.kernels, "The bundle blas")->capture_default_str();
  app.add_option("--edge", settings.edge, "Of the matrices, some of which are larger")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_flag("--quick", settings.quick, "Fewer launches");
  CLI11_PARSE(app, count, words);
  const auto code = run(settings);
  if (code.ok()) return *code;
  std::fprintf(stderr, "blas_bench: %s\n", to_string(code.error()).c_str());
  return 2;
}
