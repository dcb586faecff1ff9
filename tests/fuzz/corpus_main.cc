// Runs a fuzz target as an ordinary test: every seed of a corpus folder, then a fixed number of
// seeded mutations of them. The same arguments give the same inputs on every machine.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "tests/fuzz/accepted.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);

namespace {

constexpr size_t kLongestInput = 64 * 1024;

// What is being tried; written to a file if it ends the program.
std::string current;
constexpr char kCrashFile[] = "fuzz-crash-input";

void keep_input(int signal_number) {
  const int fd = open(kCrashFile, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd >= 0) {
    [[maybe_unused]] auto written = write(fd, current.data(), current.size());
    constexpr char kMessage[] = "the input is kept in ./fuzz-crash-input\n";
    written = write(2, kMessage, sizeof kMessage - 1);
  }
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void run(std::string input) {
  current = std::move(input);
  // A copy of exactly this size, so that a sanitizer sees a read past its end.
  const std::vector<uint8_t> exact(current.begin(), current.end());
  lambent::fuzz::accepted.last = false;
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void mutate_once(std::string& input, const std::vector<std::string>& seeds,
                 lambent::Random& random) {
  const auto position = [&](size_t extra) { return random.below(input.size() + extra); };
  const uint64_t kind = random.below(8);
  if (kind == 0 || input.empty()) {
    input.insert(position(1), 1, static_cast<char>(random.below(256)));
  } else if (kind == 1) {
    input[position(0)] ^= static_cast<char>(1u << random.below(8));
  } else if (kind == 2) {
    static constexpr unsigned char kEdges[] = {0, 1, 0x7f, 0x80, 0xff, '\r', '\n', ' ', ',', '"'};
    input[position(0)] = static_cast<char>(kEdges[random.below(sizeof kEdges)]);
  } else if (kind == 3) {
    const size_t from = position(0);
    input.erase(from, 1 + random.below(std::min<size_t>(input.size() - from, 16)));
  } else if (kind == 4) {
    const size_t from = position(0);
    const std::string piece = input.substr(from, 1 + random.below(64));
    input.insert(position(1), piece);
  } else if (kind == 5) {
    input.resize(position(1));
  } else if (kind == 6) {
    const std::string& other = seeds[random.below(seeds.size())];
    input.resize(position(1));
    if (!other.empty()) input += other.substr(random.below(other.size()));
  } else {
    // A little-endian number that is large, small or negative.
    static constexpr uint64_t kNumbers[] = {
        0, 1, 0xff, 0xffff, 0x7fffffff, 0xffffffff, ~uint64_t{0}, 0x80000000, 4096, 65537};
    const uint64_t number = kNumbers[random.below(std::size(kNumbers))];
    const size_t from = position(0);
    const size_t width = std::min<size_t>(input.size() - from, size_t{1} << random.below(4));
    for (size_t i = 0; i < width; i++) input[from + i] = static_cast<char>(number >> (8 * i));
  }
  if (input.size() > kLongestInput) input.resize(kLongestInput);
}

struct Seeds {
  std::vector<std::string> names, inputs;
};

Seeds read_seeds(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  Seeds seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.names.push_back(path.filename());
    seeds.inputs.emplace_back(std::istreambuf_iterator<char>(file),
                              std::istreambuf_iterator<char>());
  }
  return seeds;
}

// Runs them; false if a target that tells takes one that is to be refused, or the other way round.
bool run_seeds(const Seeds& seeds) {
  bool right = true;
  for (size_t i = 0; i < seeds.inputs.size(); i++) {
    run(seeds.inputs[i]);
    if (!lambent::fuzz::accepted.is_told) continue;
    const bool wanted = !seeds.names[i].starts_with("refused");
    if (lambent::fuzz::accepted.last == wanted) continue;
    right = false;
    fprintf(stderr, "the seed %s was %s\n", seeds.names[i].c_str(),
            wanted ? "refused: mend it, or let its name begin with 'refused'" : "accepted");
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s CORPUS_FOLDER_OR_FILE MUTATIONS [SEED]\n", argv[0]);
    return 2;
  }
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL}) signal(number, keep_input);
  const std::filesystem::path where = argv[1];
  if (std::filesystem::is_regular_file(where)) {
    std::ifstream file(where, std::ios::binary);
    run(std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
    return 0;
  }
  const Seeds all = read_seeds(where);
  const std::vector<std::string>& seeds = all.inputs;
  if (seeds.empty()) {
    fprintf(stderr, "%s: no seeds in %s\n", argv[0], argv[1]);
    return 1;
  }
  const uint64_t mutations = strtoull(argv[2], nullptr, 10);
  const uint64_t seed = argc > 3 ? strtoull(argv[3], nullptr, 10) : 1;
  run("");
  const bool right = run_seeds(all);
  lambent::SeededRandom random(seed);
  for (uint64_t i = 0; i < mutations; i++) {
    std::string input = seeds[random.below(seeds.size())];
    const uint64_t steps = 1 + random.below(8);
    for (uint64_t step = 0; step < steps; step++) mutate_once(input, seeds, random);
    run(std::move(input));
  }
  printf("%zu seeds and %llu mutations (seed %llu) went through\n", seeds.size(),
         static_cast<unsigned long long>(mutations), static_cast<unsigned long long>(seed));
  return right ? 0 : 1;
}
