// What we use of onnxruntime's C interface: a table of functions whose places never change (new
// ones are added at its end), by place, with the types of their arguments. Facts of the library's
// header onnxruntime_c_api.h; nothing is linked against it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lambent::onnx::abi {

// Objects of the library's.
struct Status;
struct Environment;
struct Session;
struct SessionOptions;
struct RunOptions;
struct Value;
struct Allocator;
struct MemoryInfo;
struct TypeInfo;
struct TensorInfo;
struct CudaOptions;

// The oldest version of the table that has all places below.
constexpr uint32_t kTableVersion = 1;
// And that has those of CUDA's provider too.
constexpr uint32_t kCudaTableVersion = 11;

struct Base {
  const void* const* (*table)(uint32_t version);  // null if the library is older
  const char* (*version)();
};
using GetBase = const Base* (*)();
constexpr const char* kGetBase = "OrtGetApiBase";

// A place in the table and the function that is there.
template <size_t kPlace, typename Function>
struct Entry {
  static Function* in(const void* const* table) {
    return reinterpret_cast<Function*>(const_cast<void*>(table[kPlace]));
  }
};

using GetErrorMessage = Entry<2, const char*(const Status*)>;
using GetErrorCode = Entry<1, int(const Status*)>;
using CreateEnvironment = Entry<3, Status*(int severity, const char* id, Environment**)>;
using CreateSession =
    Entry<7, Status*(const Environment*, const char* path, const SessionOptions*, Session**)>;
using CreateSessionFromArray = Entry<8, Status*(const Environment*, const void* model, size_t size,
                                                const SessionOptions*, Session**)>;
using Run = Entry<9, Status*(Session*, const RunOptions*, const char* const* input_names,
                             const Value* const* inputs, size_t input_count,
                             const char* const* output_names, size_t output_count, Value**)>;
using CreateSessionOptions = Entry<10, Status*(SessionOptions**)>;
using SetIntraOpThreads = Entry<24, Status*(SessionOptions*, int)>;
using SetInterOpThreads = Entry<25, Status*(SessionOptions*, int)>;
using InputCount = Entry<30, Status*(const Session*, size_t*)>;
using OutputCount = Entry<31, Status*(const Session*, size_t*)>;
using InputTypeInfo = Entry<33, Status*(const Session*, size_t, TypeInfo**)>;
using OutputTypeInfo = Entry<34, Status*(const Session*, size_t, TypeInfo**)>;
using InputName = Entry<36, Status*(const Session*, size_t, Allocator*, char**)>;
using OutputName = Entry<37, Status*(const Session*, size_t, Allocator*, char**)>;
using CreateTensor =
    Entry<48, Status*(Allocator*, const int64_t* shape, size_t rank, int type, Value**)>;
using CreateTensorWithData =
    Entry<49, Status*(const MemoryInfo*, void* data, size_t size, const int64_t* shape, size_t rank,
                      int type, Value**)>;
using IsTensor = Entry<50, Status*(const Value*, int*)>;
using TensorData = Entry<51, Status*(Value*, void**)>;
using FillStrings = Entry<52, Status*(Value*, const char* const*, size_t count)>;
using StringsLength = Entry<53, Status*(const Value*, size_t*)>;
using StringsContent =
    Entry<54, Status*(const Value*, void* into, size_t size, size_t* offsets, size_t count)>;
using TensorInfoOfType = Entry<55, Status*(const TypeInfo*, const TensorInfo**)>;
using DataTypeOf = Entry<60, Status*(const TensorInfo*, int*)>;
using Rank = Entry<61, Status*(const TensorInfo*, size_t*)>;
using Dimensions = Entry<62, Status*(const TensorInfo*, int64_t*, size_t)>;
using ElementCount = Entry<64, Status*(const TensorInfo*, size_t*)>;
using TensorInfoOf = Entry<65, Status*(const Value*, TensorInfo**)>;
using CreateCpuMemoryInfo = Entry<69, Status*(int allocator, int memory, MemoryInfo**)>;
using AllocatorFree = Entry<76, Status*(Allocator*, void*)>;
using DefaultAllocator = Entry<78, Status*(Allocator**)>;
using ReleaseEnvironment = Entry<92, void(Environment*)>;
using ReleaseStatus = Entry<93, void(Status*)>;
using ReleaseMemoryInfo = Entry<94, void(MemoryInfo*)>;
using ReleaseSession = Entry<95, void(Session*)>;
using ReleaseValue = Entry<96, void(Value*)>;
using ReleaseTypeInfo = Entry<98, void(TypeInfo*)>;
using ReleaseTensorInfo = Entry<99, void(TensorInfo*)>;
using ReleaseSessionOptions = Entry<100, void(SessionOptions*)>;
using AvailableProviders = Entry<125, Status*(char*** names, int* count)>;
using ReleaseAvailableProviders = Entry<126, Status*(char** names, int count)>;
using AppendCudaProvider = Entry<204, Status*(SessionOptions*, const CudaOptions*)>;
using CreateCudaOptions = Entry<205, Status*(CudaOptions**)>;
using UpdateCudaOptions = Entry<206, Status*(CudaOptions*, const char* const* keys,
                                             const char* const* values, size_t count)>;
using ReleaseCudaOptions = Entry<208, void(CudaOptions*)>;

// The library's numbers.
constexpr int kSeverityError = 3;
constexpr int kDeviceAllocator = 0;
constexpr int kDefaultMemory = 0;
// Codes of GetErrorCode that blame what was given: an argument, a file that is none of ONNX, an
// operator that is not there, a graph that is none.
constexpr int kOfWhatWasGiven[] = {2, 7, 9, 10};
constexpr const char* kCudaProvider = "CUDAExecutionProvider";

}  // namespace lambent::onnx::abi
