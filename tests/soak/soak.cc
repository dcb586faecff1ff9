// soak: runs worlds in which everything goes wrong, one seed after the other on all processors, and
// holds the dispatcher to its invariants after every event. A failure prints the seed, the commit
// and the command that replays it. See docs/internals/simulator.md.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include "tests/soak/soak_options.h"

namespace lambent::soak {
namespace {

using simulator::FaultyWorldOptions;
using simulator::FaultyWorldResult;

// A world takes milliseconds.
constexpr int kMostSecondsPerWorld = 120;
// Every so many seeds a world has a twin that is restored from snapshots every so many events.
constexpr uint64_t kSeedsPerTwin = 10;
constexpr unsigned kTwinPeriod = 13;
// So many worlds have had every kind of fault, if it can happen at all.
constexpr uint64_t kWorldsForEveryFault = 500;

// The whole world of a seed.
FaultyWorldOptions world_of(uint64_t seed, const Options& asked) {
  return {.seed = seed,
          .without = asked.without,
          .most_arrivals = asked.most_arrivals,
          .twin_period = seed % kSeedsPerTwin == 0 ? kTwinPeriod : 0};
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string commit() {
  std::string text;
  if (FILE* git =
          popen("git -C '" LAMBENT_SOURCE_DIR "' describe --always --dirty 2>/dev/null", "r")) {
    char line[128];
    if (std::fgets(line, sizeof(line), git) != nullptr) text.assign(line, std::strcspn(line, "\n"));
    pclose(git);
  }
  return text.empty() ? "unknown" : text;
}

std::string replay_command(const FaultyWorldOptions& options) {
  std::string command = "./dev soak --replay " + std::to_string(options.seed);
  if (options.most_arrivals != ~uint64_t{0}) {
    command += " --arrivals " + std::to_string(options.most_arrivals);
  }
  std::string kinds;
  for (size_t i = 0; i < simulator::kFaults; ++i) {
    if (!options.without[i]) continue;
    kinds += (kinds.empty() ? "" : ",") + std::string(name_of(static_cast<simulator::Fault>(i)));
  }
  return command + (kinds.empty() ? "" : " --without " + kinds);
}

// The seed of the world that each thread runs, for the moment when the program must end at once.
thread_local volatile uint64_t seed_at_hand = 0;

// A CHECK failed or memory was misused. Only async-signal-safe calls.
void tell_seed_and_die(int signal) {
  char digits[24];
  char* at = digits + sizeof(digits);
  *--at = '\n';
  uint64_t seed = seed_at_hand;
  do {
    *--at = static_cast<char>('0' + seed % 10);
    seed /= 10;
  } while (seed != 0);
  constexpr char kText[] = "The program ended. Replay with: ./dev soak --replay ";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  written = write(STDERR_FILENO, at, static_cast<size_t>(digits + sizeof(digits) - at));
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// Fewer arrivals and fewer kinds of faults, as long as the same invariant is violated.
FaultyWorldOptions shrink(FaultyWorldOptions options, simulator::Invariant invariant) {
  const auto still_fails = [&](const FaultyWorldOptions& smaller) {
    const FaultyWorldResult result = run_faulty_world(smaller);
    return result.violation && result.violation->invariant == invariant;
  };
  for (size_t i = 0; i < simulator::kFaults; ++i) {
    FaultyWorldOptions smaller = options;
    smaller.without[i] = true;
    if (!options.without[i] && still_fails(smaller)) options = smaller;
  }
  uint64_t most = run_faulty_world(options).arrivals;
  for (uint64_t step = most / 2; step > 0; step /= 2) {
    FaultyWorldOptions smaller = options;
    smaller.most_arrivals = most - step;
    if (!still_fails(smaller)) continue;
    options = smaller;
    most = smaller.most_arrivals;
  }
  return options;
}

void tell_failure(const FaultyWorldOptions& options, const FaultyWorldResult& result) {
  for (const std::string& line : result.trace) std::printf("%s\n", line.c_str());
  std::printf("\n%s violated at %.6f s: %s\n",
              std::string(name_of(result.violation->invariant)).c_str(),
              to_seconds(result.at.time_since_epoch()), result.violation->what.c_str());
  std::printf("seed %llu, policy %s, commit %s\n", static_cast<unsigned long long>(options.seed),
              result.policy.c_str(), commit().c_str());
  std::printf("replay with: %s\n", replay_command(options).c_str());
}

int replay(const Options& asked) {
  seed_at_hand = asked.first_seed;
  FaultyWorldOptions options = world_of(asked.first_seed, asked);
  options.trace_length = asked.trace;
  const FaultyWorldResult result = run_faulty_world(options);
  if (result.violation) {
    tell_failure(options, result);
    return 1;
  }
  for (const std::string& line : result.trace) std::printf("%s\n", line.c_str());
  std::printf("seed %llu: every invariant held, %llu events, policy %s\n",
              static_cast<unsigned long long>(options.seed),
              static_cast<unsigned long long>(result.events), result.policy.c_str());
  return 0;
}

// Worlds on several threads, and what came of them.
class Soak {
 public:
  explicit Soak(const Options& options) : options_(options), next_(options.first_seed) {
    threads_ =
        options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
    began_.resize(threads_);
  }

  int run() {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < threads_; ++i) threads.emplace_back([this, i] { work(i); });
    watch();
    for (std::thread& thread : threads) thread.join();
    return report();
  }

 private:
  struct Began {
    bool at_work = false;
    uint64_t seed = 0;
    std::chrono::steady_clock::time_point at;
  };

  bool take(unsigned thread, uint64_t& seed) {
    const std::lock_guard lock(mutex_);
    const uint64_t taken = next_ - options_.first_seed;
    const bool enough =
        options_.worlds > 0 ? taken >= options_.worlds : seconds_since(start_) >= options_.seconds;
    began_[thread].at_work = !failed_ && !enough;
    if (!began_[thread].at_work) return false;
    seed = next_++;
    began_[thread] = {true, seed, std::chrono::steady_clock::now()};
    return true;
  }

  void work(unsigned thread) {
    uint64_t seed = 0;
    while (take(thread, seed)) {
      seed_at_hand = seed;
      const FaultyWorldOptions world = world_of(seed, options_);
      const FaultyWorldResult result = run_faulty_world(world);
      const std::lock_guard lock(mutex_);
      ++worlds_;
      events_ += result.events;
      invocations_ += result.arrivals;
      for (size_t i = 0; i < simulator::kFaults; ++i) faults_[i] += result.faults[i];
      // Of several, the smallest seed, so that the same run tells the same failure.
      if (result.violation && (!failed_ || seed < failed_->seed)) {
        failed_ = world;
        invariant_ = result.violation->invariant;
      }
    }
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }

  // Progress, and an eye on worlds that do not end.
  void watch() {
    const bool tells = isatty(STDERR_FILENO) != 0;
    std::unique_lock lock(mutex_);
    while (ended_ < threads_) {
      changed_.wait_for(lock, std::chrono::seconds(1));
      if (tells) {
        std::fprintf(stderr, "\r%llu worlds, %.1f million events, %.0f s ",
                     static_cast<unsigned long long>(worlds_), static_cast<double>(events_) * 1e-6,
                     seconds_since(start_));
      }
      for (const Began& began : began_) {
        if (!began.at_work || seconds_since(began.at) < kMostSecondsPerWorld) continue;
        std::printf("seed %llu does not end, commit %s\nreplay with: ./dev soak --replay %llu\n",
                    static_cast<unsigned long long>(began.seed), commit().c_str(),
                    static_cast<unsigned long long>(began.seed));
        std::fflush(stdout);
        _exit(1);
      }
    }
    if (tells) std::fprintf(stderr, "\r\x1b[K");
  }

  int report() {
    if (failed_) {
      seed_at_hand = failed_->seed;
      std::printf("%s violated by seed %llu, commit %s\nreplay with: %s\n",
                  std::string(name_of(invariant_)).c_str(),
                  static_cast<unsigned long long>(failed_->seed), commit().c_str(),
                  replay_command(*failed_).c_str());
      std::printf("looking for less that fails alike:\n\n");
      std::fflush(stdout);
      FaultyWorldOptions small = shrink(*failed_, invariant_);
      small.trace_length = options_.trace;
      tell_failure(small, run_faulty_world(small));
      return 1;
    }
    std::printf(
        "%llu worlds (seeds %llu to %llu), %llu invocations, %llu events in %.1f s; every "
        "invariant held\n",
        static_cast<unsigned long long>(worlds_),
        static_cast<unsigned long long>(options_.first_seed),
        static_cast<unsigned long long>(next_ - 1), static_cast<unsigned long long>(invocations_),
        static_cast<unsigned long long>(events_), seconds_since(start_));
    bool all_occurred = true;
    for (size_t i = 0; i < simulator::kFaults; ++i) {
      std::printf("  %-20s %12llu\n",
                  std::string(name_of(static_cast<simulator::Fault>(i))).c_str(),
                  static_cast<unsigned long long>(faults_[i]));
      all_occurred = all_occurred && (faults_[i] > 0 || options_.without[i]);
    }
    if (all_occurred || worlds_ < kWorldsForEveryFault) return 0;
    std::printf("a kind of fault never happened: this run proves less than it should\n");
    return 1;
  }

  const Options& options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  unsigned threads_ = 1;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  uint64_t next_;
  unsigned ended_ = 0;
  std::vector<Began> began_;
  uint64_t worlds_ = 0, events_ = 0, invocations_ = 0;
  simulator::FaultCounts faults_{};
  std::optional<FaultyWorldOptions> failed_;
  simulator::Invariant invariant_{};
};

}  // namespace
}  // namespace lambent::soak

int main(int argc, char** argv) {
  using namespace lambent::soak;
  if (argc > 1 && std::strcmp(argv[1], "--help") == 0) {
    std::printf("%s", usage().c_str());
    return 0;
  }
  const auto options = parse(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "soak: %s\n%s", options.error().message.c_str(), usage().c_str());
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal, tell_seed_and_die);
  }
  return options->replay ? replay(*options) : Soak(*options).run();
}
