#include "edge/frontend/node_answers.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "edge/frontend/json_text.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

// A node that takes longer is named, and the others' rows come without its own.
constexpr Duration kAnswerTime = seconds(2);

// Shared by the answers that are still to come.
struct Gathering {
  NodeAnswers gathered;
  size_t left = 1;
  std::function<void(NodeAnswers)> done;

  void one_less() {
    if (--left > 0) return;
    std::ranges::sort(gathered.answers, {}, &NodeAnswer::node);
    std::ranges::sort(gathered.silent);
    done(std::move(gathered));
  }
};

// Null: it has nothing of the kind.
Result<json> body_of(const Result<http::Response>& answer) {
  if (!answer.ok()) return answer.error();
  if (answer->status == 404) return json();
  if (answer->status != 200) {
    return Error{ErrorCode::kUnavailable, "it answers " + std::to_string(answer->status)};
  }
  ASSIGN_OR_RETURN(json body, parse_json(answer->body));
  if (!body.is_object()) return Error{ErrorCode::kUnavailable, "it answers with no object"};
  return body;
}

}  // namespace

bool asks_only_here(const http::Request& request) {
  return request.headers.get(http::kOnlyHere) == "true";
}

void ask_others(const OtherNodes& others, TenantId tenant,
                const std::function<std::string(const std::string& node)>& target,
                std::function<void(NodeAnswers)> done) {
  auto gathering = std::make_shared<Gathering>();
  gathering->done = std::move(done);
  const auto peers =
      others.nodes == nullptr ? std::vector<http::ForwardService::Peer>() : others.nodes->peers();
  const std::string name = peers.empty() ? std::string() : others.tenant_name(tenant);
  for (const http::ForwardService::Peer& peer : peers) {
    if (!peer.answers) {
      gathering->gathered.silent.push_back(peer.node);
      continue;
    }
    ++gathering->left;
    others.nodes->ask(peer.node, {.target = target(peer.node), .tenant = name, .only_here = true},
                      kAnswerTime, [gathering, node = peer.node](const auto& answer) {
                        auto body = body_of(answer);
                        if (body.ok()) {
                          gathering->gathered.answers.push_back({node, *std::move(body)});
                        } else {
                          gathering->gathered.silent.push_back(node);
                        }
                        gathering->one_less();
                      });
  }
  gathering->one_less();
}

const json& list_under(const json& body, const char* key) {
  static const json kNone = json::array();
  if (!body.is_object()) return kNone;
  const auto found = body.find(key);
  return found != body.end() && found->is_array() ? *found : kNone;
}

json rows_of_all(const std::vector<NodeAnswer>& all, const char* key, size_t most) {
  json rows = json::array();
  for (const NodeAnswer& each : all) {
    for (const json& row : list_under(each.body, key)) {
      if (!row.is_object()) continue;
      if (rows.size() == most) return rows;
      rows.push_back(row);
      rows.back()["node"] = each.node;
    }
  }
  return rows;
}

}  // namespace lambent::frontend
