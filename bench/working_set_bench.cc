// working_set_bench: what it is worth to bring in only what a program has used recently: the time
// from the command to the first kernel's end and to the answer, and the bytes that came in, beside
// all of the memory in the same run. For programs that use a tenth, half and all of their memory,
// and for two that reach a tenth of it through tables of addresses on the device, which no call
// names. And how many functions of each kind dispatch keeps warm on the device, with what was
// measured to are offloaded. Over the emulated driver; plays the worker and lambent-device.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bench/moved_program.h"
#include "bench/warm_functions.h"
#include "bin/installation.h"

namespace {

using namespace lambent;
using namespace lambent::bench;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kPieces = 20;
// After as many stays the working set is what was used in them.
constexpr int kStaysToSettle = 3;

struct Options {
  bool quick = false;
  std::string driver;
  std::string nodes;  // a folder
  Installation installation;
};

// ---- The program whose memory is moved

class Tenant {
 public:
  explicit Tenant(size_t piece_bytes) : driver_(open_driver()), words_(piece_bytes / 4) {
    void* module = nullptr;
    driver_("cuModuleLoad", &module, WORKING_SET_KERNELS);
    driver_("cuModuleGetFunction", &increment_, module, "increment");
    driver_("cuModuleGetFunction", &increment_through_, module, "increment_through");
    driver_("cuModuleGetFunction", &store_address_, module, "store_address");
    for (size_t i = 0; i < kPieces; ++i) {
      driver_("cuMemAlloc_v2", &pieces_[i], piece_bytes);
      driver_("cuMemsetD32_v2", pieces_[i], 0U, words_);
    }
    driver_("cuMemAlloc_v2", &stored_, kPieces * sizeof(Address));
    driver_("cuMemAlloc_v2", &written_, kPieces * sizeof(Address));
  }

  void make_table(bool by_kernel) {
    if (!by_kernel) {
      return driver_("cuMemcpyHtoD_v2", written_, static_cast<const void*>(pieces_),
                     sizeof(pieces_));
    }
    for (uint64_t i = 0; i < kPieces; ++i) launch(store_address_, &stored_, &i, &pieces_[i]);
    driver_("cuCtxSynchronize");
  }

  // The first `count` pieces, one kernel each; says when the first is through, and when all are and
  // the answer is there.
  void use(const std::string& way, size_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t words = words_;
      if (way == "named") launch(increment_, &pieces_[i], &words);
      if (way == "stored") launch(increment_through_, &stored_, &i, &words);
      if (way == "written") launch(increment_through_, &written_, &i, &words);
      if (i > 0) continue;
      driver_("cuCtxSynchronize");
      say("first");
    }
    unsigned answer = 0;
    driver_("cuMemcpyDtoH_v2", static_cast<void*>(&answer), pieces_[0], sizeof(answer));
    uses_ += 1;
    used_ = std::max(used_, count);
    say("answer");
  }

  // Whether every word of every piece is what it should be; only where kernels run.
  void check() {
    bool right = true;
    std::vector<unsigned> words(words_);
    for (size_t i = 0; i < kPieces; ++i) {
      driver_("cuMemcpyDtoH_v2", static_cast<void*>(words.data()), pieces_[i], words_ * 4);
      const unsigned meant = i < used_ ? uses_ : 0;
      right = right &&
              std::all_of(words.begin(), words.end(), [=](unsigned word) { return word == meant; });
    }
    say(right ? "right" : "wrong");
  }

  // What it takes the host to enqueue a launch, the least of several rows.
  void time_launches() {
    double best_ns = 1e9;
    for (int row = 0; row < 15; ++row) {
      constexpr int kLaunches = 1000;
      uint64_t none = 0;
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kLaunches; ++i) launch(increment_, &pieces_[0], &none);
      best_ns = std::min(best_ns, seconds_since(start) * 1e9 / kLaunches);
      driver_("cuCtxSynchronize");
    }
    say(std::to_string(best_ns));
  }

 private:
  template <typename... Parameters>
  void launch(void* function, Parameters*... parameters) {
    void* all[] = {parameters...};
    driver_("cuLaunchKernel", function, 1U, 1U, 1U, 1U, 1U, 1U, 0U, static_cast<void*>(nullptr),
            static_cast<void**>(all), static_cast<void**>(nullptr));
  }
  static void say(const std::string& word) {
    std::puts(word.c_str());
    std::fflush(stdout);
  }

  Driver driver_;
  const size_t words_;
  Address pieces_[kPieces] = {};
  Address stored_ = 0;
  Address written_ = 0;
  void* increment_ = nullptr;
  void* increment_through_ = nullptr;
  void* store_address_ = nullptr;
  unsigned uses_ = 0;
  size_t used_ = 0;
};

int be_tenant(size_t piece_bytes) {
  Tenant tenant(piece_bytes);
  std::puts("ready");
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    char word[32] = {};
    char way[16] = {};
    size_t count = 0;
    std::sscanf(line, "%31s %15s %zu", word, way, &count);
    const std::string act = word;
    if (act == "table") tenant.make_table(std::string(way) == "stored");
    if (act == "use") tenant.use(way, count);
    if (act == "check") tenant.check();
    if (act == "launches") tenant.time_launches();
  }
  return 0;
}

// ---- The other side

struct Program {
  std::string name;
  std::string way;
  size_t used;  // pieces
};
const Program kPrograms[] = {{"10", "named", kPieces / 10},
                             {"50", "named", kPieces / 2},
                             {"100", "named", kPieces},
                             {"hidden_written", "written", kPieces / 10},
                             {"hidden_stored", "stored", kPieces / 10}};

// Of the device that the node is of, and of a function's context there.
constexpr Bytes kDeviceMemory = Bytes::mib(143156);
constexpr Bytes kContextMemory = Bytes::mib(512);

struct Moves {
  double bytes_in = 0;
  double offloaded = 0;
  double spared = 0;  // of that, what dispatch need not count
  double first_s = 0;
  double answer_s = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Measured {
 public:
  Measured(const Options& options, WorkingSet set, size_t piece_bytes, bool models)
      : node_({.shim_folder = options.installation.shim(),
               .driver = options.driver,
               .limit = Bytes(2 * kPieces * piece_bytes),
               .working_set = set,
               .host_memory = Bytes::gib(256)}),
        program_({"working_set_bench", "--tenant", std::to_string(piece_bytes)},
                 environment(options, models)) {
    node_.line_of(program_);
    node_.wait_for_process();
  }

  void prepare(const Program& program) {
    if (program.way != "named") program_.say(("table " + program.way + "\n").c_str());
    use_ = "use " + program.way + " " + std::to_string(program.used) + "\n";
    for (int stay = 0; stay < kStaysToSettle; ++stay) {
      program_.say(use_.c_str());
      node_.line_of(program_);
      node_.line_of(program_);
      node_.move(true);
      node_.move(false);
    }
  }
  // The memory is in; out, and then in for an invocation that begins at once.
  Moves move() {
    program_.say(use_.c_str());
    node_.line_of(program_);
    node_.line_of(program_);
    Moves moves;
    moves.spared = static_cast<double>(node_.move(true).spared.count);
    const auto start = std::chrono::steady_clock::now();
    node_.begin(false);
    program_.say(use_.c_str());
    node_.line_of(program_);
    moves.first_s = seconds_since(start);
    node_.line_of(program_);
    moves.answer_s = seconds_since(start);
    const worker::MemoryMove in = node_.finish();
    moves.bytes_in = static_cast<double>(in.moved.count);
    moves.offloaded = static_cast<double>(in.offloaded.count);
    return moves;
  }
  bool is_right() {
    program_.say("check\n");
    return node_.line_of(program_).starts_with("right");
  }
  double launch_ns() {
    program_.say("launches\n");
    return std::atof(node_.line_of(program_).c_str());
  }

 private:
  std::vector<std::string> environment(const Options& options, bool models) const {
    std::vector<std::string> environment = node_.variables();
    environment.push_back("LD_LIBRARY_PATH=" +
                          std::filesystem::path(options.driver).parent_path().string());
    environment.push_back("EMULATED_CUDA_NODE=" + options.nodes + (models ? "/scaled" : "/plain"));
    environment.push_back(std::string("EMULATED_CUDA_LAUNCH_MODE=") +
                          (models ? "model" : "compute"));
    return environment;
  }

  Node node_;
  Child program_;
  std::string use_;
};

Moves median_of(const std::vector<Moves>& all) {
  const auto of = [&](double Moves::*member) {
    std::vector<double> values;
    for (const Moves& one : all) values.push_back(one.*member);
    return median(values);
  };
  return {of(&Moves::bytes_in), of(&Moves::offloaded), of(&Moves::spared), of(&Moves::first_s),
          of(&Moves::answer_s)};
}

// On the whole device, of functions as large as this program.
int warm(size_t piece, const Moves& moves) {
  return warm_functions({.device = kDeviceMemory,
                         .function = Bytes(kPieces * piece + kMiB) + kContextMemory,
                         .context = kContextMemory,
                         .offloaded = Bytes(static_cast<uint64_t>(moves.spared))});
}

// Both ways in turns.
std::pair<Moves, Moves> measure(const Options& options, const Program& program, size_t piece) {
  Measured whole(options, WorkingSet::kWhole, piece, true);
  Measured touched(options, WorkingSet::kTouched, piece, true);
  std::vector<Moves> of_whole;
  std::vector<Moves> of_touched;
  whole.prepare(program);
  touched.prepare(program);
  for (int round = 0; round < (options.quick ? 3 : 9); ++round) {
    of_whole.push_back(whole.move());
    of_touched.push_back(touched.move());
  }
  return {median_of(of_whole), median_of(of_touched)};
}

// The same programs with kernels that run, and less memory: every word is looked at.
bool all_are_right(const Options& options) {
  bool right = true;
  for (const Program& program : kPrograms) {
    Measured touched(options, WorkingSet::kTouched, 2 * kMiB, false);
    touched.prepare(program);
    for (int round = 0; round < 3; ++round) touched.move();
    if (touched.is_right()) continue;
    std::printf("%s: NOT right\n", program.name.c_str());
    right = false;
  }
  return right;
}

double added_launch_ns(const Options& options) {
  Measured whole(options, WorkingSet::kWhole, 2 * kMiB, true);
  Measured touched(options, WorkingSet::kTouched, 2 * kMiB, true);
  std::vector<double> added;
  for (int pair = 0; pair < 5; ++pair) added.push_back(touched.launch_ns() - whole.launch_ns());
  return median(added);
}

bool create_node(const Options& options, const char* name, const char* scale) {
  const std::string create = "'" + options.installation.program("emulated-gpu") +
                             "' create --config h200 --memory-scale " + scale + " --node '" +
                             options.nodes + "/" + name + "'";
  return std::system(create.c_str()) == 0;
}

}  // namespace

int main(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--tenant" && i + 1 < count) {
      return be_tenant(std::strtoull(words[i + 1], nullptr, 10));
    }
    if (word != "--quick") {
      return std::fprintf(stderr, "usage: working_set_bench [--quick]\n"), 3;
    }
    options.quick = true;
  }
  auto installation = find_installation();
  if (!installation.ok()) return std::fprintf(stderr, "working_set_bench: not installed\n"), 1;
  options.installation = *installation;
  options.driver = options.installation.emulated_driver() + "/libcuda.so.1";
  char folder_name[] = "/tmp/working_set_bench_XXXXXX";
  options.nodes = mkdtemp(folder_name);
  if (!create_node(options, "scaled", "32") || !create_node(options, "plain", "1")) return 1;

  const size_t piece = (options.quick ? 32 : 128) * kMiB;
  std::printf("the emulated driver (H200 preset, modelled time: not a GPU's), %zu MiB in all\n",
              kPieces * piece / kMiB);
  std::printf("%15s %12s %12s %12s %12s %12s %12s\n", "program", "MiB whole", "MiB touched",
              "first whole", "touched", "answer whole", "touched");
  std::map<std::string, std::string> shares;
  for (const Program& program : kPrograms) {
    const auto [whole, touched] = measure(options, program, piece);
    std::printf("%15s %12.0f %12.0f %9.1f ms %9.1f ms %9.1f ms %9.1f ms\n", program.name.c_str(),
                whole.bytes_in / kMiB, touched.bytes_in / kMiB, whole.first_s * 1e3,
                touched.first_s * 1e3, whole.answer_s * 1e3, touched.answer_s * 1e3);
    const auto add = [&](const std::string& key, double of_touched, double of_whole) {
      char text[64];
      std::snprintf(text, sizeof(text), "%s\"%s\":%.4f", shares[key].empty() ? "" : ",",
                    program.name.c_str(), of_touched / of_whole);
      shares[key] += text;
    };
    add("bytes_in_share", touched.bytes_in, whole.bytes_in);
    add("aside_share", touched.offloaded, whole.bytes_in);
    add("first_kernel_share", touched.first_s, whole.first_s);
    add("answer_share", touched.answer_s, whole.answer_s);
    const int warm_whole = warm(piece, whole);
    const int warm_touched = warm(piece, touched);
    std::printf("%15s %d functions stay warm, %d of them whole\n", "", warm_touched, warm_whole);
    add("warm_functions_ratio", warm_touched, warm_whole);
  }
  const double launch_ns = added_launch_ns(options);
  const bool right = all_are_right(options);
  std::filesystem::remove_all(options.nodes);
  std::printf("noting what a launch names takes %.0f ns\n", launch_ns);
  std::printf("{\"bench\":\"working-set\",\"quick\":%s,\"emulated\":true",
              options.quick ? "true" : "false");
  for (const auto& [key, values] : shares) std::printf(",\"%s\":{%s}", key.c_str(), values.c_str());
  std::printf(",\"launch_added_ns\":%.1f,\"right\":%s}\n", launch_ns, right ? "true" : "false");
  return right ? 0 : 1;
}
