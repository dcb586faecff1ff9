// Calls of the stand-in for cuBLAS beside our own kernels, on the emulated driver.
#include "gpu/cublas/handle.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "core/base/fd.h"
#include "core/base/testing/testing.h"
#include "gpu/cublas/testing/testing.h"
#include "gpu/cuda/device.h"

namespace lambent::cublas {
namespace {

const std::string kDouble = LAMBENT_BINARY_DIR "/lib/testing/libcublas_double.so";
const std::string kBlas = LAMBENT_BINARY_DIR "/kernels/tested/gxx/blas/host-x86_64.so";

class HandleTest : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_ == nullptr) {
      folder_ = new TemporaryFolder;  // goes with the process
      setenv("EMULATED_CUDA_NODE", (*folder_ / "node").c_str(), 1);
      setenv("EMULATED_CUDA_CONFIG", "tiny", 1);
      dlopen(LAMBENT_BINARY_DIR "/lib/emulated/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    }
    unsetenv("CUBLAS_DOUBLE_FAIL");
    auto loaded = cuda::Driver::load();
    if (!loaded.ok()) {
      ASSERT_EQ(loaded.error().code, ErrorCode::kUnavailable);
      GTEST_SKIP() << to_string(loaded.error());
    }
    driver_ = std::move(*loaded);
    auto context = cuda::Context::create(*driver_, 0);
    ASSERT_TRUE(context.ok()) << to_string(context.error());
    context_.emplace(std::move(*context));
    const auto image = read_file(kBlas, size_t{1} << 28);
    ASSERT_TRUE(image.ok()) << to_string(image.error());
    auto module = cuda::Module::load(*driver_, *image);
    ASSERT_TRUE(module.ok()) << to_string(module.error());
    module_.emplace(std::move(*module));
    auto library = Library::load(kDouble);
    ASSERT_TRUE(library.ok()) << to_string(library.error());
    library_.emplace(std::move(*library));
    auto stream = cuda::Stream::create(*driver_);
    ASSERT_TRUE(stream.ok());
    stream_.emplace(std::move(*stream));
    auto workspace = cuda::DeviceBuffer::allocate(*driver_, Bytes::mib(1));
    ASSERT_TRUE(workspace.ok());
    workspace_.emplace(std::move(*workspace));
  }
  Workspace workspace() const { return {workspace_->pointer(), workspace_->size()}; }
  cuda::DeviceBuffer on_device(const std::string& content) {
    auto buffer = cuda::DeviceBuffer::allocate(*driver_, Bytes(content.size() + 1));
    CHECK(buffer.ok(), "a small device has room for a small buffer");
    CHECK(buffer->write(std::as_bytes(std::span(content))).ok(), "it can be written");
    CHECK((*driver_)->ctx_synchronize() == CUDA_SUCCESS, "it is there");
    return std::move(*buffer);
  }
  static std::string content_of(const cuda::DeviceBuffer& buffer) {
    std::string content(buffer.size().count - 1, '\0');
    CHECK(buffer.read(std::as_writable_bytes(std::span(content))).ok(), "it can be read");
    return content;
  }

  static inline TemporaryFolder* folder_ = nullptr;
  std::unique_ptr<cuda::Driver> driver_;
  std::optional<cuda::Context> context_;
  std::optional<cuda::Module> module_;
  std::optional<Library> library_;
  std::optional<cuda::Stream> stream_;
  std::optional<cuda::DeviceBuffer> workspace_;
};

// A launch and its operands on the device; `c` as it was before.
struct OnDevice {
  RandomLaunch made;
  kernel_graph::Launch launch;
  Call call;
  std::vector<cuda::DeviceBuffer> buffers;
  std::string c;
  Expected expected;

  CUdeviceptr address(uint8_t argument) const {
    const auto* buffer = std::get_if<kernel_graph::BufferArgument>(&launch.arguments[argument]);
    if (buffer == nullptr) return 0;
    return buffers[made.has_a() ? buffer->buffer : buffer->buffer + 1].pointer();
  }
  Operands operands() const {
    return {address(call.argument_a), address(call.argument_b), address(call.argument_c)};
  }
  // Every element of c within this many times what one of two results may be off by; as it was
  // where the launch writes none.
  void expect(const std::string& result, const Expected& from, double times) const {
    for (size_t i = 0; i < made.size_c; ++i) {
      const Wide got = number_at(made.letter, result.data() + i * made.number_bytes());
      ASSERT_LE(std::abs(got - from.values[i]), times * expected.tolerances[i]) << "element " << i;
    }
  }
};

TEST_F(HandleTest, ResultsAreThoseOfOurKernelsWithinTheTolerance) {
  auto handle = Handle::create(*driver_, *library_);
  ASSERT_TRUE(handle.ok()) << to_string(handle.error());
  EXPECT_EQ((*handle)->version(), 130002);
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const RandomLaunch made = random_launch(random, 70);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + made.letter + made.routine);
    OnDevice on{made, launch_of(made), {}, {}, {}, {}};
    const auto call = call_of(on.launch);
    ASSERT_TRUE(call.has_value());
    on.call = *call;
    const std::string a = random_numbers(made.letter, made.size_a, random);
    const std::string b = random_numbers(made.letter, made.size_b, random);
    on.c = random_numbers(made.letter, made.size_c, random);
    for (const auto& each : {a, b, on.c}) on.buffers.push_back(on_device(each));
    on.expected = expected_of(made, a, b, on.c);

    const auto ran = (*handle)->run(on.call, on.operands(), workspace(), stream_->get());
    ASSERT_TRUE(ran.ok()) << to_string(ran.error());
    ASSERT_TRUE(stream_->synchronize().ok());
    const std::string theirs = content_of(on.buffers[2]);
    on.expect(theirs, on.expected, 1);

    ASSERT_TRUE(on.buffers[2].write(std::as_bytes(std::span(on.c))).ok());
    const auto function = module_->function(on.launch.kernel);
    ASSERT_TRUE(function.ok());
    std::vector<CUdeviceptr> addresses;
    addresses.reserve(on.launch.arguments.size());
    std::vector<void*> parameters;
    for (size_t i = 0; i < on.launch.arguments.size(); ++i) {
      const auto* literal = std::get_if<kernel_graph::LiteralArgument>(&on.launch.arguments[i]);
      if (literal == nullptr) addresses.push_back(on.address(static_cast<uint8_t>(i)));
      parameters.push_back(literal != nullptr ? const_cast<char*>(literal->bytes.data())
                                              : static_cast<void*>(&addresses.back()));
    }
    cuda::KernelNode node;
    node.function = *function;
    node.grid = {on.launch.grid.x, on.launch.grid.y, on.launch.grid.z};
    node.block = {on.launch.block.x, on.launch.block.y, on.launch.block.z};
    node.parameters = parameters;
    ASSERT_TRUE(cuda::launch(*driver_, node, stream_->get()).ok());
    ASSERT_TRUE(stream_->synchronize().ok());
    const std::string ours = content_of(on.buffers[2]);
    on.expect(ours, on.expected, 1);

    Expected of_ours = on.expected;
    for (size_t i = 0; i < made.size_c; ++i) {
      of_ours.values[i] = number_at(made.letter, ours.data() + i * made.number_bytes());
    }
    on.expect(theirs, of_ours, 2);
  }
}

// c = a + b, elementwise: the call of an axpy with an alpha of one.
Call sum_of(int count) {
  RandomLaunch made;
  made.routine = "axpy";
  made.n = count;
  made.alpha = 1;
  return *call_of(launch_of(made));
}

TEST_F(HandleTest, ACapturedCallIsDoneWhereItsGraphIsPartOfAnotherAndFollowsItsOperands) {
  auto handle = Handle::create(*driver_, *library_);
  ASSERT_TRUE(handle.ok());
  const auto floats = [&](float one, float other) {
    const float both[] = {one, other};
    return on_device({reinterpret_cast<const char*>(both), sizeof(both)});
  };
  const auto first = floats(1, 2), second = floats(10, 20), to = floats(0, 0), other = floats(5, 5);
  const auto captured =
      (*handle)->capture(sum_of(2), {0, first.pointer(), to.pointer()}, workspace());
  ASSERT_TRUE(captured.ok()) << to_string(captured.error());
  const auto graph = cuda::Graph::create(*driver_);
  ASSERT_TRUE(graph.ok());
  const auto node = graph->add_child(*captured, {});
  ASSERT_TRUE(node.ok());
  auto exec = cuda::ExecutableGraph::instantiate(*driver_, *graph);
  ASSERT_TRUE(exec.ok());
  const auto run = [&] {
    ASSERT_TRUE(exec->launch(stream_->get()).ok());
    ASSERT_TRUE(stream_->synchronize().ok());
  };
  const auto value = [](const cuda::DeviceBuffer& buffer) {
    return number_at('s', content_of(buffer).data()).real();
  };
  EXPECT_EQ(value(to), 0) << "captured, not done";
  run();
  EXPECT_EQ(value(to), 1);
  const auto moved =
      (*handle)->capture(sum_of(2), {0, second.pointer(), other.pointer()}, workspace());
  ASSERT_TRUE(moved.ok());
  ASSERT_TRUE(exec->change_child(*node, *moved).ok());
  run();
  EXPECT_EQ(value(to), 1);
  EXPECT_EQ(value(other), 15);
}

TEST_F(HandleTest, WhatCublasRefusesIsAnErrorOfItsOwnAndCapturesEndAllTheSame) {
  setenv("CUBLAS_DOUBLE_FAIL", "cublasSaxpy_v2 1 15", 1);
  auto handle = Handle::create(*driver_, *library_);
  ASSERT_TRUE(handle.ok());
  const auto memory = on_device("abcdefgh");
  const Operands operands{0, memory.pointer(), memory.pointer()};
  const auto ran = (*handle)->run(sum_of(2), operands, workspace(), stream_->get());
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().code, ErrorCode::kUnimplemented);
  EXPECT_EQ(ran.error().message, "an axpy of cuBLAS: CUBLAS_STATUS_NOT_SUPPORTED (15)");
  EXPECT_FALSE((*handle)->capture(sum_of(2), operands, workspace()).ok());
  unsetenv("CUBLAS_DOUBLE_FAIL");
  EXPECT_TRUE((*handle)->capture(sum_of(2), operands, workspace()).ok());
}

TEST_F(HandleTest, ALibraryThatIsNotThereOrIsNoneOrDoesNotStartIsAnError) {
  EXPECT_EQ(Library::load(*folder_ / "libcublas.so").error().code, ErrorCode::kUnavailable);
  const auto driver = Library::load(LAMBENT_BINARY_DIR "/lib/emulated/libcuda.so.1");
  ASSERT_FALSE(driver.ok());
  EXPECT_NE(driver.error().message.find("has no cublasCreate_v2"), std::string::npos);
  setenv("CUBLAS_DOUBLE_FAIL", "cublasCreate_v2 1 1", 1);
  const auto handle = Handle::create(*driver_, *library_);
  ASSERT_FALSE(handle.ok());
  EXPECT_NE(handle.error().message.find("CUBLAS_STATUS_NOT_INITIALIZED"), std::string::npos);
}

// It asks the driver to prove what it is, which the emulated one cannot.
TEST_F(HandleTest, NvidiasOwnLibraryHasEveryFunctionAndRefusesTheEmulatedDriver) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "what a sanitizer finds in it is not ours";
#endif
  const auto theirs = Library::load("/usr/local/cuda/lib64/libcublas.so");
  if (!theirs.ok()) GTEST_SKIP() << to_string(theirs.error());
  const auto handle = Handle::create(*driver_, *theirs);
  ASSERT_FALSE(handle.ok());
  EXPECT_EQ(handle.error().code, ErrorCode::kUnimplemented) << to_string(handle.error());
}

TEST_F(HandleTest, AHandleOfAGreenContextRunsInIt) {
  const auto all = cuda::Multiprocessors::of(*driver_, 0);
  if (!all.ok()) GTEST_SKIP() << to_string(all.error());
  const uint32_t group = 0;
  const auto green = cuda::GreenContext::create(*driver_, 0, *all, std::span(&group, 1));
  ASSERT_TRUE(green.ok()) << to_string(green.error());
  {
    const auto stream = cuda::Stream::create(*driver_, *green);
    auto handle = Handle::create(*driver_, *library_, &*green);
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE(handle.ok()) << to_string(handle.error());
    const float both[] = {1, 2};
    const auto memory = on_device({reinterpret_cast<const char*>(both), sizeof(both)});
    const Operands operands{0, memory.pointer(), memory.pointer()};
    const auto ran = (*handle)->run(sum_of(2), operands, workspace(), stream->get());
    ASSERT_TRUE(ran.ok()) << to_string(ran.error());
    ASSERT_TRUE(stream->synchronize().ok());
    EXPECT_EQ(number_at('s', content_of(memory).data()), Wide(2));
  }
}

}  // namespace
}  // namespace lambent::cublas
