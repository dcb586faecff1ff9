// The other nodes of node "a", as the frontend asks them. Included by tests only; one thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/http/forward_service.h"
#include "core/http/message.h"
#include "edge/frontend/log_reader.h"

namespace lambent::frontend {

// Other nodes, whose answers a test gives.
class FakeNodes final : public http::ForwardService {
 public:
  struct Asked {
    std::string node;
    std::string target;
    std::function<void(Result<http::Response>)> done;
  };
  std::vector<Peer> others;
  std::vector<Asked> asked;              // and not answered
  std::map<std::string, LogPart> parts;  // of nodes that answer at once

  Result<std::optional<Forwarded>> forwarded_by(const http::Request&) const override {
    return std::optional<Forwarded>();
  }
  void take(http::Request&) override {}
  void route(http::ForwardCall) override {}
  void catch_up(const FunctionName&, std::function<void(Result<void>)> then) override { then({}); }
  void changed() override {}
  std::string self() const override { return "a"; }
  std::vector<Peer> peers() const override { return others; }
  void ask(const std::string& node, Question question, Duration,
           std::function<void(Result<http::Response>)> done) override {
    std::string target = std::move(question.target);
    const auto part = parts.find(node);
    if (part == parts.end()) return asked.push_back({node, std::move(target), std::move(done)});
    done(answer_of(part->second, target));
  }

  static http::Response answer_of(const LogPart& part) {
    http::Response response;
    response.status = 200;
    response.body = encode_log_part(part);
    return response;
  }

 private:
  // From the offset that is asked for on, and no more than that.
  static http::Response answer_of(LogPart part, const std::string& target) {
    const auto offset = std::stoul(http::query_value(http::query_of(target), "offset"));
    const auto most = std::stoul(http::query_value(http::query_of(target), "most"));
    LogChunk& chunk = part.chunk;
    chunk.text.erase(0, offset);
    if (chunk.text.size() > most) {
      chunk.next_offset -= chunk.text.size() - most;
      chunk.text.resize(most);
      std::erase_if(chunk.marks,
                    [&](const auto& each) { return each.offset >= chunk.next_offset; });
    }
    return answer_of(part);
  }
};

}  // namespace lambent::frontend
