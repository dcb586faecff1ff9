#include "node/network/refusals.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "node/network/limits.h"

namespace lambent::network {
namespace {

constexpr size_t kLongestLine = 4096;

}  // namespace

std::string write_refusal(const Refusal& refusal) {
  return std::to_string(refusal.times) + "\t" + refusal.destination + "\t" + refusal.why;
}

std::optional<Refusal> parse_refusal(std::string_view line) {
  Refusal refusal;
  const size_t first = line.find('\t');
  const size_t second = first == std::string_view::npos ? first : line.find('\t', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(line.data(), line.data() + first, refusal.times);
  if (error != std::errc() || end != line.data() + first) return std::nullopt;
  refusal.destination = std::string(line.substr(first + 1, second - first - 1));
  refusal.why = std::string(line.substr(second + 1));
  return refusal;
}

void Refusals::add(const std::string& destination, const std::string& why) {
  const auto key = std::pair(destination, why);
  if (const auto found = counts_.find(key); found != counts_.end()) {
    ++found->second;
  } else if (counts_.size() < limits::kNetworkRefusalsTold) {
    counts_.emplace(key, 0);
    tell({1, destination, why});
  } else {
    ++others_;
  }
  if (in_interval_) return;
  in_interval_ = true;
  timer_ = loop_.call_after(limits::kNetworkRefusalInterval, [this] { end_interval(); });
}

void Refusals::end_interval() {
  in_interval_ = false;
  for (const auto& [key, times] : counts_) {
    if (times > 0) tell({times, key.first, key.second});
  }
  if (others_ > 0) tell({others_, "other destinations", "see those before"});
  counts_.clear();
  others_ = 0;
}

RefusalReader::RefusalReader(loop::EventLoop& loop, OwnedFd pipe, OnRefusal on_refusal)
    : pipe_(std::move(pipe)), on_refusal_(std::move(on_refusal)) {
  watch_ = loop.watch(pipe_.get(), true, false, [this](loop::Readiness) { read_more(); });
}

void RefusalReader::read_more() {
  char buffer[kLongestLine];
  const ssize_t got = read(pipe_.get(), buffer, sizeof(buffer));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return watch_.reset();
  line_.append(buffer, static_cast<size_t>(got));
  for (size_t end = line_.find('\n'); end != std::string::npos; end = line_.find('\n')) {
    if (const auto refusal = parse_refusal(line_.substr(0, end))) on_refusal_(*refusal);
    line_.erase(0, end + 1);
  }
  if (line_.size() > kLongestLine) line_.clear();
}

void Refusals::tell(const Refusal& refusal) {
  if (!pipe_.valid()) return;
  const std::string line = write_refusal(refusal) + "\n";
  (void)!write(pipe_.get(), line.data(), line.size());
}

}  // namespace lambent::network
