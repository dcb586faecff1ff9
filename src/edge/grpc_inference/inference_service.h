// InferenceService: the Open Inference Protocol by gRPC, with Triton's extensions, in front of a
// worker's REST API. A call waits for the worker on the thread that gRPC gives it.
#pragma once

#include <grpcpp/grpcpp.h>
#include <inference.grpc.pb.h>

#include "edge/grpc_inference/worker_client.h"

namespace lambent::grpc_inference {

class InferenceService final : public ::inference::GRPCInferenceService::Service {
 public:
  // The client outlives it.
  explicit InferenceService(WorkerClient& worker) : worker_(worker) {}

  using Context = grpc::ServerContext;
  using Status = grpc::Status;
  Status ServerLive(Context*, const ::inference::ServerLiveRequest*,
                    ::inference::ServerLiveResponse*) override;
  Status ServerReady(Context*, const ::inference::ServerReadyRequest*,
                     ::inference::ServerReadyResponse*) override;
  Status ModelReady(Context*, const ::inference::ModelReadyRequest*,
                    ::inference::ModelReadyResponse*) override;
  Status ServerMetadata(Context*, const ::inference::ServerMetadataRequest*,
                        ::inference::ServerMetadataResponse*) override;
  Status ModelMetadata(Context*, const ::inference::ModelMetadataRequest*,
                       ::inference::ModelMetadataResponse*) override;
  Status ModelInfer(Context*, const ::inference::ModelInferRequest*,
                    ::inference::ModelInferResponse*) override;
  Status ModelStreamInfer(Context*,
                          grpc::ServerReaderWriter<::inference::ModelStreamInferResponse,
                                                   ::inference::ModelInferRequest>*) override;
  Status ModelConfig(Context*, const ::inference::ModelConfigRequest*,
                     ::inference::ModelConfigResponse*) override;
  Status ModelStatistics(Context*, const ::inference::ModelStatisticsRequest*,
                         ::inference::ModelStatisticsResponse*) override;
  Status RepositoryIndex(Context*, const ::inference::RepositoryIndexRequest*,
                         ::inference::RepositoryIndexResponse*) override;
  Status RepositoryModelLoad(Context*, const ::inference::RepositoryModelLoadRequest*,
                             ::inference::RepositoryModelLoadResponse*) override;
  Status RepositoryModelUnload(Context*, const ::inference::RepositoryModelUnloadRequest*,
                               ::inference::RepositoryModelUnloadResponse*) override;
  Status SystemSharedMemoryStatus(Context*, const ::inference::SystemSharedMemoryStatusRequest*,
                                  ::inference::SystemSharedMemoryStatusResponse*) override;
  Status SystemSharedMemoryRegister(Context*, const ::inference::SystemSharedMemoryRegisterRequest*,
                                    ::inference::SystemSharedMemoryRegisterResponse*) override;
  Status SystemSharedMemoryUnregister(Context*,
                                      const ::inference::SystemSharedMemoryUnregisterRequest*,
                                      ::inference::SystemSharedMemoryUnregisterResponse*) override;
  Status CudaSharedMemoryStatus(Context*, const ::inference::CudaSharedMemoryStatusRequest*,
                                ::inference::CudaSharedMemoryStatusResponse*) override;
  Status CudaSharedMemoryRegister(Context*, const ::inference::CudaSharedMemoryRegisterRequest*,
                                  ::inference::CudaSharedMemoryRegisterResponse*) override;
  Status CudaSharedMemoryUnregister(Context*, const ::inference::CudaSharedMemoryUnregisterRequest*,
                                    ::inference::CudaSharedMemoryUnregisterResponse*) override;

 private:
  WorkerClient& worker_;
};

}  // namespace lambent::grpc_inference
