#include "edge/frontend/log_reader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/http/message.h"

namespace lambent::frontend {
namespace {

// A node that takes longer is named, and the others' lines come without its own.
constexpr Duration kAnswerTime = seconds(2);
constexpr size_t kLeastPart = 16 * 1024;
// Of which only the end is wanted; one without text would say that nothing more is there.
constexpr size_t kPartForEnd = 1;

// An answer while nodes are asked. Shared by their answers.
struct Gathering {
  LogReader::Question question;
  std::string self;
  std::vector<LogPart> parts;
  std::vector<std::string> silent;
  size_t left = 1;
  std::function<void(Result<LogReader::Answer>)> done;
};

Error none_has_it(const Gathering& gathering) {
  const std::string function = "function '" + gathering.question.function.name + "'";
  if (gathering.silent.empty()) return {ErrorCode::kNotFound, function + " does not exist"};
  return {ErrorCode::kUnavailable, "no node that answers has " + function + ", and node '" +
                                       gathering.silent.front() +
                                       "', which may have it, does not answer; try again later"};
}

void finish(Gathering& gathering, bool is_alone) {
  const bool is_known = std::any_of(gathering.parts.begin(), gathering.parts.end(),
                                    [](const LogPart& part) { return part.is_known; });
  const bool may_be_known = gathering.question.goes_on && !gathering.silent.empty();
  if (!is_known && !may_be_known) return gathering.done(none_has_it(gathering));
  LogReader::Answer answer;
  answer.is_alone = is_alone;
  std::stable_sort(gathering.parts.begin(), gathering.parts.end(),
                   [](const LogPart& a, const LogPart& b) { return a.node < b.node; });
  for (const LogPart& part : gathering.parts) {
    const bool is_named = !answer.nodes.empty() && answer.nodes.back() == part.node;
    if (part.chunk.end > 0 && !is_named) answer.nodes.push_back(part.node);
  }
  answer.silent = std::move(gathering.silent);
  std::sort(answer.silent.begin(), answer.silent.end());
  if (is_alone) gathering.question.merge.settle = Duration::zero();
  answer.log = merge_logs(std::move(gathering.parts), std::move(gathering.question.from),
                          gathering.question.merge);
  answer.next_offset = is_alone ? answer.log.next.text_for(gathering.self) : answer.log.next.text();
  gathering.done(std::move(answer));
}

Result<LogPart> part_in(const Result<http::Response>& answer, uint64_t offset, size_t most) {
  if (!answer.ok()) return answer.error();
  // 404: of a program that does not know the question.
  if (answer->status != 200) {
    return Error{ErrorCode::kUnavailable, "it answers " + std::to_string(answer->status)};
  }
  ASSIGN_OR_RETURN(LogPart part, read_log_part(answer->body));
  part.asked = offset;
  RETURN_IF_ERROR(check_log_part(part, most));
  return part;
}

// Nothing of its text, and its end as the place to go on from.
void go_to_end(LogPart& part) {
  part.asked = std::max(part.chunk.end, part.chunk.next_offset);
  part.chunk = {.text = {}, .next_offset = part.asked, .end = part.asked};
}

}  // namespace

std::string log_part_target(std::string_view tenant, const std::string& function, uint64_t offset,
                            size_t most) {
  return "/v1/cluster/log/" + http::percent_encode(std::string(tenant)) + "/" +
         http::percent_encode(function) + "?offset=" + std::to_string(offset) +
         "&most=" + std::to_string(most);
}

LogReader::LogReader(InvocationService& service, loop::EventLoop& loop, OtherNodes others)
    : service_(service), loop_(loop), others_(std::move(others)) {}

bool LogReader::asks_others(const Question& question) const {
  return !question.only_here && others_.are_there();
}

LogPart LogReader::own_part(const FunctionName& function, uint64_t offset, size_t most) const {
  LogPart part{
      .node = others_.self(), .is_known = true, .chunk = {}, .now = loop_.clock().wall_now()};
  part.asked = offset;
  auto chunk = service_.read_log(function, offset, most);
  part.is_known = chunk.ok();
  if (chunk.ok()) part.chunk = *std::move(chunk);
  return part;
}

// A chunk ends where text is missing: what comes behind it is a part more.
std::vector<LogPart> LogReader::own_parts(const Question& question, size_t most) const {
  std::vector<LogPart> parts;
  if (question.at_end) {
    go_to_end(parts.emplace_back(own_part(question.function, 0, kPartForEnd)));
    return parts;
  }
  uint64_t offset = question.from.offset_at(others_.self());
  for (;;) {
    LogPart& part = parts.emplace_back(own_part(question.function, offset, most));
    LogChunk& chunk = part.chunk;
    most -= std::min(most, chunk.text.size());
    const bool goes_on = chunk.has_more() && chunk.next_offset > offset && most >= kLeastPart;
    if (!goes_on) return parts;
    offset = chunk.next_offset;
    chunk.end = offset;
  }
}

void LogReader::read(const Question& asked, std::function<void(Result<Answer>)> done) {
  auto gathering = std::make_shared<Gathering>();
  gathering->question = asked;
  gathering->self = others_.self();
  gathering->question.from.name_own(gathering->self);
  const Question& question = gathering->question;
  gathering->done = std::move(done);
  if (!asks_others(question)) {
    gathering->parts = own_parts(question, kLogChunk);
    return finish(*gathering, true);
  }
  const auto peers = others_.nodes->peers();
  const size_t most =
      question.at_end ? kPartForEnd : std::max(kLeastPart, kLogChunk / (peers.size() + 1));
  gathering->parts = own_parts(question, most);
  const auto one_less = [gathering] {
    if (--gathering->left == 0) finish(*gathering, false);
  };
  const std::string tenant = others_.tenant_name(question.function.tenant);
  const Clock& clock = loop_.clock();
  const Instant begun = clock.now();
  for (const http::ForwardService::Peer& peer : peers) {
    if (!peer.answers) {
      gathering->silent.push_back(peer.node);
      continue;
    }
    ++gathering->left;
    const uint64_t offset = question.from.offset_at(peer.node);
    others_.nodes->ask(
        peer.node, {log_part_target(tenant, question.function.name, offset, most)}, kAnswerTime,
        [gathering, one_less, node = peer.node, offset, most, &clock, begun](const auto& answer) {
          auto part = part_in(answer, offset, most);
          if (part.ok()) {
            part->node = node;
            if (gathering->question.at_end) go_to_end(*part);
            // Later lines of the first are not here.
            part->lag = clock.now() - begun;
            gathering->parts.push_back(*std::move(part));
          } else {
            gathering->silent.push_back(node);
          }
          one_less();
        });
  }
  one_less();
}

}  // namespace lambent::frontend
