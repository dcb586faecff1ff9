// What the other nodes of a cluster answer to one question about a tenant, each for itself: lists
// that one node shows of all are made of these. On the loop thread.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/http/forward_service.h"
#include "core/http/message.h"

namespace lambent::frontend {

// The other nodes, and what they call a tenant.
struct OtherNodes {
  http::ForwardService* nodes = nullptr;  // null: there are no others
  std::function<std::string(TenantId)> tenant_name = {};

  // Whether there are some now.
  bool are_there() const { return nodes != nullptr && !nodes->peers().empty(); }
  // Empty where the worker is in no cluster, however few nodes that has now.
  std::string self() const { return nodes == nullptr ? std::string() : nodes->self(); }
};

// Whether a client wants what this node has, and nothing of others.
bool asks_only_here(const http::Request& request);

struct NodeAnswer {
  std::string node;
  nlohmann::json body;  // null: it has nothing of the kind
};
struct NodeAnswers {
  std::vector<NodeAnswer> answers;  // in order of their nodes' names
  // That did not answer within two seconds, or with what can be read, in order of their names.
  std::vector<std::string> silent;
};

// `target`: what the node of that name is asked. `done` comes once; in this turn where no node that
// answers is there.
void ask_others(const OtherNodes& others, TenantId tenant,
                const std::function<std::string(const std::string& node)>& target,
                std::function<void(NodeAnswers)> done);

// The rows under `key` of all answers, at most `most`, each with its `node`.
nlohmann::json rows_of_all(const std::vector<NodeAnswer>& all, const char* key, size_t most);
// The list under `key`; empty if there is none.
const nlohmann::json& list_under(const nlohmann::json& body, const char* key);

}  // namespace lambent::frontend
