#include "node/onnx_runtime/onnx_engine.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "node/onnx_runtime/onnx_abi.h"

namespace lambent::onnx {
namespace {

// In the order of the library's numbers, from 1 on; what is missing has no type in the protocol.
constexpr std::optional<DataType> kTypes[] = {
    std::nullopt,     DataType::kFp32,  DataType::kUint8,  DataType::kInt8,   DataType::kUint16,
    DataType::kInt16, DataType::kInt32, DataType::kInt64,  DataType::kBytes,  DataType::kBool,
    DataType::kFp16,  DataType::kFp64,  DataType::kUint32, DataType::kUint64, std::nullopt,
    std::nullopt,     DataType::kBf16,
};

std::optional<DataType> type_from(int number) {
  if (number < 0 || static_cast<size_t>(number) >= std::size(kTypes)) return std::nullopt;
  return kTypes[number];
}

int number_of(DataType type) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i] == type) return static_cast<int>(i);
  }
  return 0;
}

class Api {
 public:
  static Result<Api> load(const std::string& library) {
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* why = dlerror();
      return Error{ErrorCode::kNotFound,
                   "onnxruntime cannot be loaded: " + std::string(why == nullptr ? "?" : why)};
    }
    auto* const base = reinterpret_cast<abi::GetBase>(dlsym(handle, abi::kGetBase));
    if (base == nullptr) return Error{ErrorCode::kInvalidArgument, library + " is no onnxruntime"};
    const void* const* table = base()->table(abi::kTableVersion);
    if (table == nullptr) {
      return Error{ErrorCode::kInvalidArgument, library + " is too old an onnxruntime"};
    }
    return Api(base(), table);
  }

  // Whether its table has the entries of CUDA's provider. An older library says on standard error
  // that it has not.
  bool knows_cuda() const { return base_->table(abi::kCudaTableVersion) != nullptr; }

  // An entry of the table that cannot fail.
  template <typename Entry, typename... Arguments>
  auto direct(Arguments... arguments) const {
    return Entry::in(table_)(arguments...);
  }
  // One that gives a status: its message and code, if it failed.
  template <typename Entry, typename... Arguments>
  Result<void> call(Arguments... arguments) const {
    abi::Status* status = Entry::in(table_)(arguments...);
    if (status == nullptr) return {};
    const int code = direct<abi::GetErrorCode>(status);
    const bool is_argument =
        std::ranges::find(abi::kOfWhatWasGiven, code) != std::end(abi::kOfWhatWasGiven);
    Error error{is_argument ? ErrorCode::kInvalidArgument : ErrorCode::kInternal,
                direct<abi::GetErrorMessage>(status)};
    direct<abi::ReleaseStatus>(status);
    return error;
  }

 private:
  Api(const abi::Base* base, const void* const* table) : base_(base), table_(table) {}
  const abi::Base* base_;
  const void* const* table_;
};

// What the library gave out; released by the entry Release.
template <typename Release, typename T>
class Owned {
 public:
  explicit Owned(const Api& api) : api_(&api) {}
  ~Owned() {
    if (object_ != nullptr) api_->direct<Release>(object_);
  }
  Owned(Owned&& other) noexcept
      : api_(other.api_), object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&&) = delete;

  T* get() const { return object_; }
  T** out() { return &object_; }

 private:
  const Api* api_;
  T* object_ = nullptr;
};
using OwnedEnvironment = Owned<abi::ReleaseEnvironment, abi::Environment>;
using OwnedOptions = Owned<abi::ReleaseSessionOptions, abi::SessionOptions>;
using OwnedSession = Owned<abi::ReleaseSession, abi::Session>;
using OwnedMemoryInfo = Owned<abi::ReleaseMemoryInfo, abi::MemoryInfo>;
using OwnedTypeInfo = Owned<abi::ReleaseTypeInfo, abi::TypeInfo>;
using OwnedTensorInfo = Owned<abi::ReleaseTensorInfo, abi::TensorInfo>;
using OwnedValue = Owned<abi::ReleaseValue, abi::Value>;
using OwnedCudaOptions = Owned<abi::ReleaseCudaOptions, abi::CudaOptions>;

Result<bool> has_cuda_provider(const Api& api) {
  if (!api.knows_cuda()) return false;
  char** names = nullptr;
  int count = 0;
  RETURN_IF_ERROR(api.call<abi::AvailableProviders>(&names, &count));
  const bool found = std::any_of(names, names + count, [](const char* name) {
    return std::string_view(name) == abi::kCudaProvider;
  });
  RETURN_IF_ERROR(api.call<abi::ReleaseAvailableProviders>(names, count));
  return found;
}

// What the provider takes of the device's memory is what a model needs: it is counted and bounded
// by the shim, and does not double.
Result<void> add_cuda_provider(const Api& api, abi::SessionOptions* session) {
  OwnedCudaOptions cuda(api);
  RETURN_IF_ERROR(api.call<abi::CreateCudaOptions>(cuda.out()));
  static constexpr const char* kKeys[] = {"device_id", "arena_extend_strategy",
                                          "cudnn_conv_algo_search"};
  static constexpr const char* kValues[] = {"0", "kSameAsRequested", "HEURISTIC"};
  const char* const* keys = kKeys;
  const char* const* values = kValues;
  RETURN_IF_ERROR(api.call<abi::UpdateCudaOptions>(cuda.get(), keys, values, std::size(kKeys)));
  const abi::CudaOptions* made = cuda.get();
  return api.call<abi::AppendCudaProvider>(session, made);
}

// They stay for as long as the process.
void load_cuda_libraries(const std::string& library) {
  for (const std::string& path : cuda_libraries_beside(library)) {
    dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);  // what lacks then, the provider says
  }
}

// Adds CUDA's provider to the session where it is wanted and can be.
Result<ProviderChoice> add_provider(const Api& api, const OnnxOptions& options,
                                    abi::SessionOptions* session) {
  CudaFacts facts{.no_gpu = options.no_gpu};
  if (options.provider != Provider::kCpu && facts.no_gpu.empty()) {
    ASSIGN_OR_RETURN(facts.is_built_in, has_cuda_provider(api));
  }
  if (facts.is_built_in) {
    load_cuda_libraries(options.library);
    const auto added = add_cuda_provider(api, session);
    if (!added.ok()) facts.failure = added.error().message;
  }
  return choose_provider(options.provider, facts);
}

Result<Shape> shape_in(const Api& api, const abi::TensorInfo* info) {
  size_t rank = 0;
  RETURN_IF_ERROR(api.call<abi::Rank>(info, &rank));
  Shape shape(rank);
  RETURN_IF_ERROR(api.call<abi::Dimensions>(info, shape.data(), rank));
  return shape;
}

// Of an input or output of the model, whose name is given.
Result<TensorSpec> spec_of(const Api& api, const abi::TypeInfo* type, const std::string& what) {
  const abi::TensorInfo* info = nullptr;
  RETURN_IF_ERROR(api.call<abi::TensorInfoOfType>(type, &info));
  if (info == nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 what +
                     " is no tensor but a sequence or a map; skl2onnx makes tensors with "
                     "options={'zipmap': False}"};
  }
  int number = 0;
  RETURN_IF_ERROR(api.call<abi::DataTypeOf>(info, &number));
  const auto known = type_from(number);
  if (!known) {
    return Error{ErrorCode::kInvalidArgument, what + " has elements of onnxruntime's type " +
                                                  std::to_string(number) +
                                                  ", which the inference protocol does not know"};
  }
  TensorSpec spec;
  spec.type = *known;
  ASSIGN_OR_RETURN(spec.shape, shape_in(api, info));
  for (int64_t& size : spec.shape) size = size < 0 ? -1 : size;
  return spec;
}

class OnnxEngine final : public ModelEngine {
 public:
  explicit OnnxEngine(Api api) : api_(api), environment_(api_), session_(api_), memory_(api_) {}

  Result<void> load(const OnnxOptions& options) {
    RETURN_IF_ERROR(
        api_.call<abi::CreateEnvironment>(abi::kSeverityError, "lambent", environment_.out()));
    OwnedOptions session_options(api_);
    RETURN_IF_ERROR(api_.call<abi::CreateSessionOptions>(session_options.out()));
    RETURN_IF_ERROR(api_.call<abi::SetIntraOpThreads>(session_options.get(), options.threads));
    RETURN_IF_ERROR(api_.call<abi::SetInterOpThreads>(session_options.get(), 1));
    ASSIGN_OR_RETURN(provider_, add_provider(api_, options, session_options.get()));
    RETURN_IF_ERROR(api_.call<abi::CreateCpuMemoryInfo>(abi::kDeviceAllocator, abi::kDefaultMemory,
                                                        memory_.out()));
    RETURN_IF_ERROR(api_.call<abi::DefaultAllocator>(&allocator_));
    const auto made = api_.call<abi::CreateSession>(environment_.get(), options.model.c_str(),
                                                    session_options.get(), session_.out());
    // Whatever it is, the model is to blame, unless it is the device's memory.
    if (!made.ok() && provider_.cuda) return made.error().with_context("on the GPU");
    if (!made.ok()) return Error{ErrorCode::kInvalidArgument, made.error().message};
    description_.platform = "onnxruntime_onnx";
    size_t count = 0;
    RETURN_IF_ERROR(api_.call<abi::InputCount>(session_.get(), &count));
    RETURN_IF_ERROR(
        (describe<abi::InputName, abi::InputTypeInfo>(count, "input", description_.inputs)));
    RETURN_IF_ERROR(api_.call<abi::OutputCount>(session_.get(), &count));
    return describe<abi::OutputName, abi::OutputTypeInfo>(count, "output", description_.outputs);
  }

  const ModelDescription& description() const override { return description_; }
  const ProviderChoice& provider() const { return provider_; }

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs,
                                  std::span<const std::string> outputs) override {
    std::vector<OwnedValue> values;
    std::vector<std::string> copies;  // of what does not lie as the library wants it
    copies.reserve(inputs.size());
    std::vector<const char*> input_names, output_names;
    std::vector<const abi::Value*> input_values;
    for (const Tensor& tensor : inputs) {
      OwnedValue value(api_);
      if (const auto made = make_value(tensor, copies, value); !made.ok()) {
        return made.error().with_context("input '" + tensor.name + "'");
      }
      values.push_back(std::move(value));
      input_values.push_back(values.back().get());
      input_names.push_back(tensor.name.c_str());
    }
    for (const std::string& name : outputs) output_names.push_back(name.c_str());
    std::vector<abi::Value*> results(outputs.size(), nullptr);
    const auto ran =
        api_.call<abi::Run>(session_.get(), static_cast<const abi::RunOptions*>(nullptr),
                            input_names.data(), input_values.data(), input_values.size(),
                            output_names.data(), output_names.size(), results.data());
    std::vector<OwnedValue> owned;
    for (abi::Value* result : results) {
      owned.emplace_back(api_);
      *owned.back().out() = result;
    }
    // The types and ranks were right: what it refuses, it refuses for the contents. A device may
    // also have failed, or be out of memory.
    if (!ran.ok() && provider_.cuda) return ran.error();
    if (!ran.ok()) return Error{ErrorCode::kInvalidArgument, ran.error().message};
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < owned.size(); ++i) {
      auto tensor = read_value(owned[i].get(), outputs[i]);
      if (!tensor.ok()) return tensor.error().with_context("output '" + outputs[i] + "'");
      tensors.push_back(*std::move(tensor));
    }
    return tensors;
  }

 private:
  template <typename NameEntry, typename TypeEntry>
  Result<void> describe(size_t count, const char* what, std::vector<TensorSpec>& specs) {
    for (size_t i = 0; i < count; ++i) {
      char* name = nullptr;
      RETURN_IF_ERROR(api_.call<NameEntry>(session_.get(), i, allocator_, &name));
      const std::string kept(name);
      RETURN_IF_ERROR(api_.call<abi::AllocatorFree>(allocator_, static_cast<void*>(name)));
      OwnedTypeInfo type(api_);
      RETURN_IF_ERROR(api_.call<TypeEntry>(session_.get(), i, type.out()));
      ASSIGN_OR_RETURN(TensorSpec spec,
                       spec_of(api_, type.get(), std::string(what) + " '" + kept + "'"));
      spec.name = kept;
      specs.push_back(std::move(spec));
    }
    return {};
  }

  Result<void> make_value(const Tensor& tensor, std::vector<std::string>& copies,
                          OwnedValue& value) const {
    if (tensor.type == DataType::kBytes) return make_texts(tensor, value);
    std::string_view content = tensor.content;
    // Behind a JSON of any length nothing is aligned.
    if (reinterpret_cast<uintptr_t>(content.data()) % alignof(max_align_t) != 0 ||
        content.empty()) {
      std::string copy(content);
      copy.reserve(sizeof(std::string));  // longer than what strings hold within themselves
      copies.push_back(std::move(copy));
      content = copies.back();
    }
    return api_.call<abi::CreateTensorWithData>(
        static_cast<const abi::MemoryInfo*>(memory_.get()), const_cast<char*>(content.data()) + 0,
        content.size(), tensor.shape.data(), tensor.shape.size(), number_of(tensor.type),
        value.out());
  }

  Result<void> make_texts(const Tensor& tensor, OwnedValue& value) const {
    const auto count = element_count(tensor.shape);
    ASSIGN_OR_RETURN(const auto elements, bytes_elements(tensor.content, count.value_or(0)));
    std::vector<std::string> texts;
    std::vector<const char*> pointers;
    for (const std::string_view element : elements) {
      if (element.find('\0') != std::string_view::npos) {
        return Error{ErrorCode::kInvalidArgument,
                     "onnxruntime takes texts only, and an element has a byte 0"};
      }
      texts.emplace_back(element);
    }
    for (const std::string& text : texts) pointers.push_back(text.c_str());
    RETURN_IF_ERROR(api_.call<abi::CreateTensor>(
        allocator_, tensor.shape.data(), tensor.shape.size(), number_of(tensor.type), value.out()));
    return api_.call<abi::FillStrings>(value.get(), pointers.data(), pointers.size());
  }

  Result<Tensor> read_value(abi::Value* value, const std::string& name) const {
    int is_tensor = 0;
    if (value == nullptr) return Error{ErrorCode::kInternal, "the model did not give it"};
    RETURN_IF_ERROR(api_.call<abi::IsTensor>(value, &is_tensor));
    if (is_tensor == 0) return Error{ErrorCode::kInternal, "the model gave no tensor"};
    OwnedTensorInfo info(api_);
    RETURN_IF_ERROR(api_.call<abi::TensorInfoOf>(value, info.out()));
    Tensor tensor;
    tensor.name = name;
    int number = 0;
    RETURN_IF_ERROR(api_.call<abi::DataTypeOf>(info.get(), &number));
    const auto type = type_from(number);
    if (!type) return Error{ErrorCode::kInternal, "the model gave elements of an unknown type"};
    tensor.type = *type;
    ASSIGN_OR_RETURN(tensor.shape, shape_in(api_, info.get()));
    size_t count = 0;
    RETURN_IF_ERROR(api_.call<abi::ElementCount>(info.get(), &count));
    if (*type == DataType::kBytes) {
      ASSIGN_OR_RETURN(std::string content, read_texts(value, count));
      tensor.own(std::move(content));
      return tensor;
    }
    void* data = nullptr;
    RETURN_IF_ERROR(api_.call<abi::TensorData>(value, &data));
    tensor.own(std::string(static_cast<const char*>(data), count * size_of(*type).count));
    return tensor;
  }

  Result<std::string> read_texts(abi::Value* value, size_t count) const {
    size_t length = 0;
    RETURN_IF_ERROR(api_.call<abi::StringsLength>(value, &length));
    std::string all(length, '\0');
    std::vector<size_t> offsets(count);
    RETURN_IF_ERROR(
        api_.call<abi::StringsContent>(value, all.data() + 0, length, offsets.data(), count));
    std::string content;
    for (size_t i = 0; i < count; ++i) {
      const size_t end = i + 1 < count ? offsets[i + 1] : length;
      append_bytes_element(content, std::string_view(all).substr(offsets[i], end - offsets[i]));
    }
    return content;
  }

  const Api api_;
  OwnedEnvironment environment_;
  OwnedSession session_;  // before the environment that it was made in
  OwnedMemoryInfo memory_;
  abi::Allocator* allocator_ = nullptr;  // the library's own
  ModelDescription description_;
  ProviderChoice provider_;
};

// y = Relu(x), with one element: the first session of a process makes what the others find.
constexpr unsigned char kSmallestModel[] = {
    0x08, 0x08, 0x3a, 0x33, 0x0a, 0x0c, 0x0a, 0x01, 'x',  0x12, 0x01, 'y',  0x22, 0x04, 'R',  'e',
    'l',  'u',  0x12, 0x01, 'g',  0x5a, 0x0f, 0x0a, 0x01, 'x',  0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01,
    0x12, 0x04, 0x0a, 0x02, 0x08, 0x01, 0x62, 0x0f, 0x0a, 0x01, 'y',  0x12, 0x0a, 0x0a, 0x08, 0x08,
    0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x01, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x0d};

// The library has one environment in a process, which all sessions share.
class LibraryWithEnvironment final : public LoadedLibrary {
 public:
  explicit LibraryWithEnvironment(Api api) : api_(api), environment_(api_) {}

  Result<void> load() {
    RETURN_IF_ERROR(
        api_.call<abi::CreateEnvironment>(abi::kSeverityError, "lambent", environment_.out()));
    OwnedOptions options(api_);
    RETURN_IF_ERROR(api_.call<abi::CreateSessionOptions>(options.out()));
    RETURN_IF_ERROR(api_.call<abi::SetIntraOpThreads>(options.get(), 1));
    RETURN_IF_ERROR(api_.call<abi::SetInterOpThreads>(options.get(), 1));
    OwnedSession session(api_);
    return api_.call<abi::CreateSessionFromArray>(
        environment_.get(), static_cast<const void*>(kSmallestModel), sizeof kSmallestModel,
        options.get(), session.out());
  }

 private:
  const Api api_;
  OwnedEnvironment environment_;
};

}  // namespace

Result<std::unique_ptr<LoadedLibrary>> load_onnx_library(const std::string& library) {
  if (library.empty()) return Error{ErrorCode::kNotFound, "there is no onnxruntime"};
  ASSIGN_OR_RETURN(const Api api, Api::load(library));
  auto loaded = std::make_unique<LibraryWithEnvironment>(api);
  RETURN_IF_ERROR(loaded->load());
  return std::unique_ptr<LoadedLibrary>(std::move(loaded));
}

Result<LoadedModel> load_onnx_model(const OnnxOptions& options) {
  if (access(options.model.c_str(), R_OK) != 0) {
    return error_from_errno(options.model, errno);
  }
  ASSIGN_OR_RETURN(const Api api, Api::load(options.library));
  auto engine = std::make_unique<OnnxEngine>(api);
  RETURN_IF_ERROR(engine->load(options));
  ProviderChoice provider = engine->provider();
  return LoadedModel{std::move(engine), std::move(provider)};
}

}  // namespace lambent::onnx
