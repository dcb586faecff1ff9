// NodeCredentials: how a node proves to others that it is one, and tells them whose request it
// forwards. All nodes of a cluster have one key; what they send is covered by TLS where the network
// is open. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/http/forward_service.h"

namespace lambent::cluster {

class NodeCredentials {
 public:
  // `key`: at least kLeastKey bytes. INVALID_ARGUMENT.
  static constexpr size_t kLeastKey = 32;
  static Result<NodeCredentials> make(std::string node, std::string key);

  // Adds who sends it and for whom; what a client sent under these names is taken off before.
  void sign(http::Request& request, const http::ForwardService::Forwarded& whose) const;
  // As ForwardService::forwarded_by().
  Result<std::optional<http::ForwardService::Forwarded>> verify(const http::Request& request) const;
  static void strip(http::Request& request);
  const std::string& node() const { return node_; }
  // A key of 32 bytes that all nodes derive from theirs, for nothing but this purpose.
  std::string derived_key(const std::string& purpose) const;

 private:
  NodeCredentials(std::string node, std::string key)
      : node_(std::move(node)), key_(std::move(key)) {}
  std::string proof_of(const std::string& text) const;

  std::string node_;
  std::string key_;
};

}  // namespace lambent::cluster
