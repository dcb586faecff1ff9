#include "gpu/cublas/handle.h"

#include <utility>

namespace lambent::cublas {
namespace {

// Values of cuBLAS's enumerations.
constexpr int kScalarsOnHost = 0;
constexpr int kNoAtomics = 0;
constexpr int kDefaultMath = 0;  // TF32 and its like have to be asked for

// Makes another context current for as long as it lives; null leaves the one that is.
class Entered {
 public:
  static Result<Entered> enter(const cuda::Driver& driver, CUcontext context) {
    if (context == nullptr) return Entered(nullptr);
    RETURN_IF_ERROR(driver.check(driver->ctx_push_current(context), "cuCtxPushCurrent"));
    return Entered(&driver);
  }
  Entered(Entered&& other) noexcept : driver_(std::exchange(other.driver_, nullptr)) {}
  Entered& operator=(Entered&&) = delete;
  ~Entered() {
    CUcontext left = nullptr;
    if (driver_ != nullptr) (*driver_)->ctx_pop_current(&left);
  }

 private:
  explicit Entered(const cuda::Driver* driver) : driver_(driver) {}
  const cuda::Driver* driver_;
};

template <typename T>
const T* scalar(const std::array<char, 8>& bytes) {
  return reinterpret_cast<const T*>(bytes.data());
}
template <typename T>
T* pointer(CUdeviceptr address) {
  return reinterpret_cast<T*>(address);
}

template <typename T, typename Gemm, typename Gemv, typename Axpy>
int queue(RawHandle handle, const Call& call, const Operands& operands, Gemm gemm, Gemv gemv,
          Axpy axpy) {
  const T* alpha = scalar<T>(call.alpha);
  const T* beta = scalar<T>(call.beta);
  const T* a = pointer<const T>(operands.a);
  const T* b = pointer<const T>(operands.b);
  T* c = pointer<T>(operands.c);
  switch (call.routine) {
    case Routine::kGemm:
      return gemm(handle, call.how_a, call.how_b, call.m, call.n, call.k, alpha, a, call.stride_a,
                  b, call.stride_b, beta, c, call.stride_c);
    case Routine::kGemv:
      return gemv(handle, call.how_a, call.m, call.n, alpha, a, call.stride_a, b, 1, beta, c, 1);
    case Routine::kAxpy:
      return axpy(handle, call.n, alpha, b, 1, c, 1);
  }
  return kInvalidValue;
}

int queue(const Library& library, RawHandle handle, const Call& call, const Operands& operands) {
  switch (call.number) {
    case Number::kFloat:
      return queue<float>(handle, call, operands, library->sgemm, library->sgemv, library->saxpy);
    case Number::kDouble:
      return queue<double>(handle, call, operands, library->dgemm, library->dgemv, library->daxpy);
    case Number::kComplex:
      return queue<Complex>(handle, call, operands, library->cgemm, library->cgemv, library->caxpy);
  }
  return kInvalidValue;
}

const char* name_of(Routine routine) {
  switch (routine) {
    case Routine::kGemm:
      return "a gemm of cuBLAS";
    case Routine::kGemv:
      return "a gemv of cuBLAS";
    case Routine::kAxpy:
      return "an axpy of cuBLAS";
  }
  return "";
}

}  // namespace

Result<std::unique_ptr<Handle>> Handle::create(const cuda::Driver& driver, const Library& library,
                                               const cuda::GreenContext* partition) {
  ASSIGN_OR_RETURN(auto stream, partition != nullptr ? cuda::Stream::create(driver, *partition)
                                                     : cuda::Stream::create(driver));
  std::unique_ptr<Handle> handle(new Handle(driver, library, std::move(stream)));
  if (partition != nullptr) {
    ASSIGN_OR_RETURN(handle->partition_, partition->context());
  }
  ASSIGN_OR_RETURN(const auto entered, Entered::enter(driver, handle->partition_));
  RawHandle& raw = handle->handle_;
  RETURN_IF_ERROR(Library::check(library->create(&raw), "cublasCreate"));
  RETURN_IF_ERROR(Library::check(library->get_version(raw, &handle->version_), "cublasGetVersion"));
  RETURN_IF_ERROR(
      Library::check(library->set_pointer_mode(raw, kScalarsOnHost), "cublasSetPointerMode"));
  RETURN_IF_ERROR(
      Library::check(library->set_atomics_mode(raw, kNoAtomics), "cublasSetAtomicsMode"));
  RETURN_IF_ERROR(Library::check(library->set_math_mode(raw, kDefaultMath), "cublasSetMathMode"));
  return handle;
}

Handle::~Handle() {
  if (handle_ == nullptr) return;
  const auto entered = Entered::enter(driver_, partition_);
  library_->destroy(handle_);
}

Result<void> Handle::run(const Call& call, const Operands& operands, const Workspace& workspace,
                         CUstream stream) {
  ASSIGN_OR_RETURN(const auto entered, Entered::enter(driver_, partition_));
  RETURN_IF_ERROR(Library::check(library_->set_stream(handle_, stream), "cublasSetStream"));
  // After the stream, which takes the handle back to a workspace of its own.
  RETURN_IF_ERROR(Library::check(
      library_->set_workspace(handle_, pointer<void>(workspace.address), workspace.size.count),
      "cublasSetWorkspace"));
  return Library::check(queue(library_, handle_, call, operands), name_of(call.routine));
}

Result<cuda::Graph> Handle::capture(const Call& call, const Operands& operands,
                                    const Workspace& workspace) {
  return cuda::Graph::capture(driver_, stream_.get(),
                              [&] { return run(call, operands, workspace, stream_.get()); });
}

}  // namespace lambent::cublas
