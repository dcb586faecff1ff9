#include "node/cluster/node_credentials.h"

#include <utility>

#include "core/crypto/crypto.h"

namespace lambent::cluster {
namespace {

// "NODE TENANT SCOPES TOKEN PROOF"; a request without a token has "-".
constexpr std::string_view kHeader = "X-Lambent-Node";
constexpr std::string_view kPurpose = "lambent node\n";
constexpr size_t kWords = 4;

Error unknown_node() {
  return {ErrorCode::kUnauthenticated,
          "the request says that it comes from a node of the cluster, and does not have the "
          "cluster's key"};
}

}  // namespace

Result<NodeCredentials> NodeCredentials::make(std::string node, std::string key) {
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  if (key.size() < kLeastKey) {
    return Error{ErrorCode::kInvalidArgument,
                 "the cluster's key has " + std::to_string(key.size()) + " bytes; it needs " +
                     std::to_string(kLeastKey) + ", as from 'openssl rand -hex 32'"};
  }
  return NodeCredentials(std::move(node), std::move(key));
}

std::string NodeCredentials::proof_of(const std::string& text) const {
  return crypto::to_hex(crypto::hmac_sha256(key_, std::string(kPurpose) + text));
}

std::string NodeCredentials::derived_key(const std::string& purpose) const {
  return std::string(
      crypto::bytes_of(crypto::hmac_sha256(key_, "lambent derived key 1: " + purpose)));
}

void NodeCredentials::sign(http::Request& request,
                           const http::ForwardService::Forwarded& whose) const {
  strip(request);
  const std::string scopes = whose.scopes.empty() ? "-" : to_string(whose.scopes);
  const std::string text =
      node_ + " " + whose.tenant + " " + scopes + " " + (whose.token.empty() ? "-" : whose.token);
  request.headers.add(std::string(kHeader), text + " " + proof_of(text));
}

Result<std::optional<http::ForwardService::Forwarded>> NodeCredentials::verify(
    const http::Request& request) const {
  if (!request.headers.contains(kHeader)) return std::optional<http::ForwardService::Forwarded>();
  const std::string header(request.headers.get(kHeader));
  const size_t end = header.rfind(' ');
  if (end == std::string::npos) return unknown_node();
  const std::string text = header.substr(0, end);
  if (!crypto::equal_in_constant_time(proof_of(text), header.substr(end + 1))) {
    return unknown_node();
  }
  std::string words[kWords];
  size_t begin = 0;
  for (size_t word = 0; word < kWords; ++word) {
    const size_t space = word + 1 == kWords ? text.size() : text.find(' ', begin);
    if (space == std::string::npos || begin > text.size()) return unknown_node();
    words[word] = text.substr(begin, space - begin);
    begin = space + 1;
  }
  http::ForwardService::Forwarded whose{
      .node = words[0], .tenant = words[1], .scopes = {}, .token = words[3] == "-" ? "" : words[3]};
  if (words[2] != "-") {
    ASSIGN_OR_RETURN(whose.scopes, scopes_from(words[2]));
  }
  return std::optional(std::move(whose));
}

void NodeCredentials::strip(http::Request& request) {
  if (!request.headers.contains(kHeader)) return;
  http::Headers kept;
  for (const auto& [name, value] : request.headers.fields()) {
    if (!http::same_name(name, kHeader)) kept.add(name, value);
  }
  request.headers = std::move(kept);
}

}  // namespace lambent::cluster
