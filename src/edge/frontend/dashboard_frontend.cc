#include "edge/frontend/dashboard_frontend.h"

#include "core/crypto/crypto.h"
#include "edge/frontend/native_path.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kFolder = "/dashboard/";

// Scripts may set no text as markup either (trusted types), whatever they were sent.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

}  // namespace

bool is_dashboard_path(std::string_view path) {
  return path == "/" || path == "/dashboard" || path.starts_with(kFolder);
}

DashboardFrontend::DashboardFrontend() {
  for (const dashboard::File& file : dashboard::files()) {
    const std::string digest = crypto::to_hex(crypto::sha256(std::string(file.content)));
    const Served served{file, "\"" + digest.substr(0, 32) + "\""};
    if (file.name == "index.html") {
      for (const char* path : {"/", "/dashboard", "/dashboard/"}) files_.emplace(path, served);
    }
    files_.emplace(std::string(kFolder) + std::string(file.name), served);
  }
}

http::Response DashboardFrontend::answer(const http::Request& request) const {
  const std::string_view path = http::path_of(request.target);
  const auto found = files_.find(path);
  if (found == files_.end()) return no_such_path(path);
  if (request.method != "GET" && request.method != "HEAD") {
    return method_not_allowed(request.method, "GET, HEAD");
  }
  const auto& [file, etag] = found->second;
  http::Response response;
  response.headers.add("Content-Type", std::string(file.type));
  response.headers.add("ETag", etag);
  response.headers.add("Cache-Control", "no-cache");
  response.headers.add("Content-Security-Policy", std::string(kPolicy));
  response.headers.add("X-Frame-Options", "DENY");
  response.headers.add("X-Content-Type-Options", "nosniff");
  response.headers.add("Referrer-Policy", "no-referrer");
  response.headers.add("Cross-Origin-Opener-Policy", "same-origin");
  response.headers.add("Cross-Origin-Resource-Policy", "same-origin");
  if (request.headers.get("if-none-match") == etag) {
    response.status = 304;
  } else {
    response.body = file.content;
  }
  return response;
}

}  // namespace lambent::frontend
