#include "edge/grpc_inference/inference_service.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <utility>

#include "core/base/time.h"
#include "edge/grpc_inference/infer_conversion.h"

namespace lambent::grpc_inference {
namespace {

using Context = grpc::ServerContext;
using grpc::Status;

// Of a call without a deadline; a function's own timeout ends most before.
constexpr Duration kLongest = seconds(3600);

Duration time_left(const Context& context) {
  const auto left = std::chrono::duration_cast<Duration>(context.deadline().time_since_epoch()) -
                    SystemClock().wall_now();
  return std::clamp<Duration>(left, milliseconds(1), kLongest);
}

// What of a call's metadata is for the worker.
void add_metadata(const Context& context, http::Request& request) {
  for (const char* name : {"authorization", "x-lambent-tenant", "x-lambent-authorization"}) {
    const auto range = context.client_metadata().equal_range(name);
    for (auto entry = range.first; entry != range.second; ++entry) {
      request.headers.add(name, std::string(entry->second.data(), entry->second.size()));
    }
  }
}

Status ask(WorkerClient& worker, const Context& context, http::Request request,
           http::Response& answer) {
  add_metadata(context, request);
  auto response = worker.send(request, time_left(context));
  if (!response.ok()) return status_of(response.error());
  answer = *std::move(response);
  return status_of(answer);
}

Status ask(WorkerClient& worker, const Context& context, const std::string& method,
           const Result<std::string>& target, http::Response& answer) {
  if (!target.ok()) return status_of(target.error());
  return ask(worker, context, {.method = method, .target = *target}, answer);
}

// JSON names fields as messages do; what a message does not have is left out.
Status read_json(const std::string& text, google::protobuf::Message& message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (google::protobuf::util::JsonStringToMessage(text, &message, options).ok()) return Status::OK;
  return {grpc::StatusCode::INTERNAL, "the model's answer is none of the Open Inference Protocol"};
}

Status infer(WorkerClient& worker, const Context& context,
             const ::inference::ModelInferRequest& request,
             ::inference::ModelInferResponse& response) {
  auto made = infer_request(request);
  if (!made.ok()) return status_of(made.error());
  http::Response answer;
  if (auto status = ask(worker, context, *std::move(made), answer); !status.ok()) return status;
  auto read = infer_response(answer, request);
  if (!read.ok()) return status_of(read.error());
  response = *std::move(read);
  return Status::OK;
}

// Those of who may not ask, and of a worker that is not there, are told; the model's own mean no.
bool is_no(const Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
      return true;
    default:
      return false;
  }
}

}  // namespace

Status InferenceService::ServerLive(Context* context, const ::inference::ServerLiveRequest*,
                                    ::inference::ServerLiveResponse* response) {
  http::Response answer;
  const Status status = ask(worker_, *context, "GET", std::string("/v2/health/live"), answer);
  response->set_live(status.ok());
  return status;
}

Status InferenceService::ServerReady(Context* context, const ::inference::ServerReadyRequest*,
                                     ::inference::ServerReadyResponse* response) {
  http::Response answer;
  const Status status = ask(worker_, *context, "GET", std::string("/v2/health/ready"), answer);
  response->set_ready(status.ok());
  // The worker's own no.
  return answer.status == 503 ? Status::OK : status;
}

Status InferenceService::ModelReady(Context* context, const ::inference::ModelReadyRequest* request,
                                    ::inference::ModelReadyResponse* response) {
  http::Response answer;
  const Status status = ask(worker_, *context, "GET",
                            model_target(request->name(), request->version(), "/ready"), answer);
  response->set_ready(status.ok());
  // 503: the worker's own no, such as of a model that a client unloaded.
  const bool is_told = is_no(status) || answer.status == 503;
  return !request->name().empty() && is_told ? Status::OK : status;
}

Status InferenceService::ServerMetadata(Context* context, const ::inference::ServerMetadataRequest*,
                                        ::inference::ServerMetadataResponse* response) {
  http::Response answer;
  const Status status = ask(worker_, *context, "GET", std::string("/v2"), answer);
  return status.ok() ? read_json(answer.body, *response) : status;
}

Status InferenceService::ModelMetadata(Context* context,
                                       const ::inference::ModelMetadataRequest* request,
                                       ::inference::ModelMetadataResponse* response) {
  http::Response answer;
  const Status status =
      ask(worker_, *context, "GET", model_target(request->name(), request->version()), answer);
  return status.ok() ? read_json(answer.body, *response) : status;
}

Status InferenceService::ModelInfer(Context* context, const ::inference::ModelInferRequest* request,
                                    ::inference::ModelInferResponse* response) {
  return infer(worker_, *context, *request, *response);
}

Status InferenceService::ModelStreamInfer(
    Context* context,
    grpc::ServerReaderWriter<::inference::ModelStreamInferResponse, ::inference::ModelInferRequest>*
        stream) {
  ::inference::ModelInferRequest request;
  while (stream->Read(&request)) {
    ::inference::ModelStreamInferResponse response;
    const Status status = infer(worker_, *context, request, *response.mutable_infer_response());
    if (!status.ok()) {
      response.set_error_message(status.error_message());
      response.mutable_infer_response()->set_id(request.id());
    }
    if (!stream->Write(response)) break;
  }
  return Status::OK;
}

Status InferenceService::ModelConfig(Context* context,
                                     const ::inference::ModelConfigRequest* request,
                                     ::inference::ModelConfigResponse* response) {
  http::Response answer;
  const Status status = ask(worker_, *context, "GET",
                            model_target(request->name(), request->version(), "/config"), answer);
  return status.ok() ? read_json(answer.body, *response->mutable_config()) : status;
}

Status InferenceService::ModelStatistics(Context* context,
                                         const ::inference::ModelStatisticsRequest* request,
                                         ::inference::ModelStatisticsResponse* response) {
  http::Response answer;
  const Status status = ask(worker_, *context, "GET",
                            model_target(request->name(), request->version(), "/stats"), answer);
  return status.ok() ? read_json(answer.body, *response) : status;
}

Status InferenceService::RepositoryIndex(Context* context,
                                         const ::inference::RepositoryIndexRequest* request,
                                         ::inference::RepositoryIndexResponse* response) {
  http::Response answer;
  const Status status = ask(worker_, *context,
                            {.method = "POST",
                             .target = "/v2/repository/index",
                             .headers = {},
                             .body = request->ready() ? R"({"ready":true})" : ""},
                            answer);
  return status.ok() ? read_json("{\"models\":" + answer.body + "}", *response) : status;
}

Status InferenceService::RepositoryModelLoad(Context* context,
                                             const ::inference::RepositoryModelLoadRequest* request,
                                             ::inference::RepositoryModelLoadResponse*) {
  if (request->parameters_size() > 0) {
    return {grpc::StatusCode::UNIMPLEMENTED,
            "a model is loaded as it was deployed: 'lambent deploy' changes it"};
  }
  http::Response answer;
  return ask(worker_, *context, "POST",
             "/v2/repository/models/" + http::percent_encode(request->model_name()) + "/load",
             answer);
}

Status InferenceService::RepositoryModelUnload(
    Context* context, const ::inference::RepositoryModelUnloadRequest* request,
    ::inference::RepositoryModelUnloadResponse*) {
  http::Response answer;
  return ask(worker_, *context, "POST",
             "/v2/repository/models/" + http::percent_encode(request->model_name()) + "/unload",
             answer);
}

Status InferenceService::SystemSharedMemoryStatus(
    Context* context, const ::inference::SystemSharedMemoryStatusRequest* request,
    ::inference::SystemSharedMemoryStatusResponse* response) {
  http::Response answer;
  const Status status =
      ask(worker_, *context, "GET", region_target("system", request->name(), "status"), answer);
  if (!status.ok()) return status;
  const auto regions = regions_by_name(answer.body);
  if (!regions.ok()) return status_of(regions.error());
  return read_json(*regions, *response);
}

Status InferenceService::SystemSharedMemoryRegister(
    Context* context, const ::inference::SystemSharedMemoryRegisterRequest* request,
    ::inference::SystemSharedMemoryRegisterResponse*) {
  auto made = register_request(*request);
  if (!made.ok()) return status_of(made.error());
  http::Response answer;
  const Status status = ask(worker_, *context, *std::move(made), answer);
  if (answer.status != 409) return status;
  return {grpc::StatusCode::ALREADY_EXISTS, status.error_message()};
}

Status InferenceService::SystemSharedMemoryUnregister(
    Context* context, const ::inference::SystemSharedMemoryUnregisterRequest* request,
    ::inference::SystemSharedMemoryUnregisterResponse*) {
  http::Response answer;
  return ask(worker_, *context, "POST", region_target("system", request->name(), "unregister"),
             answer);
}

// The worker knows none of CUDA's, and says so.
Status InferenceService::CudaSharedMemoryStatus(
    Context* context, const ::inference::CudaSharedMemoryStatusRequest* request,
    ::inference::CudaSharedMemoryStatusResponse*) {
  http::Response answer;
  return ask(worker_, *context, "GET", region_target("cuda", request->name(), "status"), answer);
}

Status InferenceService::CudaSharedMemoryRegister(
    Context* context, const ::inference::CudaSharedMemoryRegisterRequest* request,
    ::inference::CudaSharedMemoryRegisterResponse*) {
  if (request->name().empty()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "the request names no region"};
  }
  http::Response answer;
  return ask(worker_, *context, "POST", region_target("cuda", request->name(), "register"), answer);
}

Status InferenceService::CudaSharedMemoryUnregister(
    Context* context, const ::inference::CudaSharedMemoryUnregisterRequest* request,
    ::inference::CudaSharedMemoryUnregisterResponse*) {
  http::Response answer;
  return ask(worker_, *context, "POST", region_target("cuda", request->name(), "unregister"),
             answer);
}

}  // namespace lambent::grpc_inference
