// journal_bench [--quick]: what the journal adds to dispatch on the thread that dispatches, beside
// the same events without it. Prints a table and, as its last line, one JSON object.
//
// The events are those of dispatch_bench's *invocation*: InvocationSubmitted and InvocationFinished
// with a queue of other work behind it. Both runs handle the same events in turns of a few
// thousand; the journal's goes to files in a temporary folder, as a worker's does: collected on
// this thread, encoded, checksummed and written by the store's, whose time is told apart. Times are
// CPU time of a thread, for the machine may be shared; the overhead is the median over pairs of
// turns. `cpu_pct` is what both threads pay together, beside dispatch. `unread` is a third run of
// the same, whose lines nobody reads: what is noted costs that much on a core that shares nothing.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "decide/journal/recorder.h"
#include "decide/scheduling/make_policy.h"
#include "node/journal_store/segment_store.h"

namespace lambent {
namespace {

constexpr unsigned kTokens = 32;

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// A dispatcher with functions that take turns, and perhaps a recorder.
class Load {
 public:
  Load(uint32_t functions, journal::SegmentSink* sink)
      : functions_(functions), dispatcher_(options(functions), policy()), random_(11) {
    if (sink != nullptr) {
      recorder_.emplace(journal::RunFacts{.version = "bench",
                                          .policy = "mqfq-sticky",
                                          .options = options(functions),
                                          .run = functions},
                        *sink, journal::RecorderOptions{});
      recorder_->begin(dispatcher_, Duration(0));
    }
    for (uint32_t id = 1; id <= functions; ++id) {
      handle(dispatch::FunctionRegistered{{.id = FunctionId{id},
                                           .tenant = TenantId{1},
                                           .device_memory = Bytes::gib(1),
                                           .timeout = seconds(1'000'000)}});
      submit(FunctionId{id});
      handle(dispatch::SandboxReady{SandboxId{id}});
      finish();
    }
    for (uint32_t i = 0; i < 2 * functions; ++i) submit(any());
  }

  // CPU seconds of this thread for `count` invocations.
  double turn(int count) {
    const double before = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < count; ++i) {
      now_ += microseconds(50);
      submit(any());
      finish();
    }
    const double took = seconds_of(CLOCK_THREAD_CPUTIME_ID) - before;
    return took;
  }
  const journal::Recorder* recorder() const { return recorder_ ? &*recorder_ : nullptr; }
  uint64_t log_hash() const { return dispatcher_.log_hash(); }

 private:
  static dispatch::DispatchOptions options(uint32_t functions) {
    dispatch::DispatchOptions options;
    options.fleet.devices.push_back({.id = DeviceId{1},
                                     .memory = Bytes::gib(1) * (functions + 1),
                                     .tokens = std::min(kTokens, functions / 2),
                                     .contexts = functions + 1});
    options.fleet.most_sandboxes = functions + 1;
    options.keep_alive = seconds(1'000'000);
    options.longest_wait = seconds(1'000'000);
    return options;
  }
  static std::unique_ptr<scheduling::Policy> policy() {
    return std::move(scheduling::make_policy("mqfq-sticky")).value();
  }

  FunctionId any() { return FunctionId{1 + static_cast<uint32_t>(random_.below(functions_))}; }
  void submit(FunctionId function) {
    handle(dispatch::InvocationSubmitted{{random_.next(), ++ids_}, function});
  }
  void finish() {
    const InvocationId id = running_.front();
    running_.front() = running_.back();
    running_.pop_back();
    handle(dispatch::InvocationFinished{id, milliseconds(1 + id.low % 3000), true});
  }
  void handle(const dispatch::Event& event) {
    actions_.clear();
    dispatcher_.handle(event, now_, actions_);
    if (recorder_) recorder_->record(event, now_, dispatcher_);
    for (const dispatch::Action& action : actions_) {
      if (const auto* start = std::get_if<dispatch::StartInvocation>(&action)) {
        running_.push_back(start->invocation);
      }
    }
  }

  uint32_t functions_;
  dispatch::Dispatcher dispatcher_;
  std::optional<journal::Recorder> recorder_;
  SeededRandom random_;
  std::vector<InvocationId> running_;
  std::vector<dispatch::Action> actions_;
  uint64_t ids_ = 0;
  Instant now_{};
};

// Takes what it is given, and does nothing with it.
class UnreadSink final : public journal::SegmentSink {
 public:
  bool begin_segment() override { return true; }
  bool append(journal::BlockType, std::string) override { return true; }
  bool append_events(journal::EventBatch& batch) override {
    batch.clear();
    return true;
  }
};

double bytes_in(const std::string& folder) {
  double bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    bytes += static_cast<double>(file.file_size());
  }
  return bytes;
}

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Figures {
  double plain_ns = 0;  // per event
  double added_ns = 0;
  double overhead_pct = 0;
  double unread_pct = 0;
  double writer_ns = 0;
  double bytes = 0;
  uint64_t lost = 0;
};

Figures measure(uint32_t functions, bool quick, const std::string& folder) {
  SystemClock clock;
  NullLogSink log;
  auto store = std::move(journal_store::SegmentStore::open(
                             {.folder = folder, .most_size = Bytes::mib(256)}, clock, log))
                   .value();
  Figures figures;
  {
    Load plain(functions, nullptr);
    Load recorded(functions, store.get());
    UnreadSink unread_sink;
    Load unread(functions, &unread_sink);
    Load* const loads[] = {&plain, &recorded, &unread};
    const int count = 5'000;
    const int turns = quick ? 60 : 400;
    for (Load* load : loads) load->turn(20'000);
    std::vector<double> plain_ns, added_ns, overheads, unread_overheads;
    const double all_before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    const double own_before = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < turns; ++i) {
      // Who goes first changes, so that none finds the caches warmer.
      double times[3];
      for (int k = 0; k < 3; ++k) {
        const int which = (i + k) % 3;
        times[which] = loads[which]->turn(count) * 1e9 / (2.0 * count);
      }
      plain_ns.push_back(times[0]);
      added_ns.push_back(times[1] - times[0]);
      overheads.push_back((times[1] - times[0]) / times[0] * 100);
      unread_overheads.push_back((times[2] - times[0]) / times[0] * 100);
    }
    CHECK(store->sync().ok(), "the temporary folder can be written");
    const double writer_s = (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - all_before) -
                            (seconds_of(CLOCK_THREAD_CPUTIME_ID) - own_before);
    for (const Load* load : loads) {
      CHECK(plain.log_hash() == load->log_hash(), "all were given the same events");
    }
    figures = {.plain_ns = median(plain_ns),
               .added_ns = median(added_ns),
               .overhead_pct = median(overheads),
               .unread_pct = median(unread_overheads),
               .writer_ns = writer_s * 1e9 / (2.0 * count * turns),
               .bytes = bytes_in(folder) / static_cast<double>(recorded.recorder()->events()),
               .lost = recorded.recorder()->lost_events()};
  }
  return figures;
}

int run(bool quick) {
  char folder[] = "/tmp/journal_bench.XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    std::perror("journal_bench: mkdtemp");
    return 1;
  }
  std::printf("%snanoseconds of CPU time per event, medians\n", quick ? "QUICK RUN; " : "");
  std::printf("%9s %10s %9s %9s %9s %9s %9s %11s %6s\n", "functions", "dispatch", "added",
              "overhead", "unread", "writer", "cpu", "bytes/event", "lost");
  std::string text;
  double worst = 0;
  for (const uint32_t functions : {24U, 4000U}) {
    const Figures f =
        measure(functions, quick, std::string(folder) + "/" + std::to_string(functions));
    const double cpu_pct = (f.added_ns + f.writer_ns) / f.plain_ns * 100;
    std::printf("%9u %10.1f %9.1f %8.1f%% %8.1f%% %9.1f %8.1f%% %11.1f %6llu\n", functions,
                f.plain_ns, f.added_ns, f.overhead_pct, f.unread_pct, f.writer_ns, cpu_pct, f.bytes,
                static_cast<unsigned long long>(f.lost));
    worst = std::max(worst, f.overhead_pct);
    char entry[320];
    std::snprintf(entry, sizeof(entry),
                  "%s\"%u\":{\"dispatch_ns\":%.1f,\"added_ns\":%.1f,\"overhead_pct\":%.2f,"
                  "\"unread_overhead_pct\":%.2f,\"writer_ns\":%.1f,\"cpu_pct\":%.1f,\"bytes_per_"
                  "event\":%.1f,\"lost_events\":%llu}",
                  text.empty() ? "" : ",", functions, f.plain_ns, f.added_ns, f.overhead_pct,
                  f.unread_pct, f.writer_ns, cpu_pct, f.bytes,
                  static_cast<unsigned long long>(f.lost));
    text += entry;
  }
  std::filesystem::remove_all(folder);
  std::printf(
      "{\"bench\":\"journal\",\"quick\":%s,\"journal_overhead_pct\":%.2f,\"functions\":{%s}}\n",
      quick ? "true" : "false", worst, text.c_str());
  return 0;
}

}  // namespace
}  // namespace lambent

int main(int count, char** arguments) {
  bool quick = false;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--quick") == 0) {
      quick = true;
    } else {
      std::fprintf(stderr, "usage: journal_bench [--quick]\n");
      return 2;
    }
  }
  return lambent::run(quick);
}
