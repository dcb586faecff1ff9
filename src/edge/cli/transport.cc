#include "edge/cli/transport.h"

namespace lambent::cli {

std::string curl_words(const http::Endpoint& endpoint, const std::string& function) {
  const std::string path = "/f/" + function + "/";
  if (endpoint.socket_path.empty()) return http::to_string(endpoint) + path;
  return "--unix-socket " + endpoint.socket_path + " http://localhost" + path;
}

Error HttpTransport::explained(const Error& error) const {
  if (error.code != ErrorCode::kUnavailable) return error;
  return Error{error.code,
               error.message + " Start one with 'lambent serve', or name another than " +
                   http::to_string(destination_.endpoint) + " with --endpoint or LAMBENT_ENDPOINT"};
}

http::Request HttpTransport::authorized(const http::Request& request) const {
  http::Request sending = request;
  sending.headers = headers_of(request, destination_.credentials);
  return sending;
}

Result<http::Response> HttpTransport::send(const http::Request& request, Duration timeout) {
  auto response = client_.send(authorized(request), timeout);
  if (!response.ok()) return explained(response.error());
  return response;
}

Result<http::Response> HttpTransport::stream(const http::Request& request, Duration timeout,
                                             const Sink& sink) {
  auto response = client_.stream(authorized(request), timeout, sink);
  if (!response.ok()) return explained(response.error());
  return response;
}

Result<http::Response> HttpTransport::upload(const http::Request& request, Bytes size,
                                             Duration timeout, const http::BodySource& source) {
  auto response = client_.upload(authorized(request), size.count, timeout, source);
  if (!response.ok()) return explained(response.error());
  return response;
}

}  // namespace lambent::cli
