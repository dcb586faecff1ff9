#include "tests/soak/soak_options.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace lambent::soak {
namespace {

Error wrong(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

Result<double> read_number(const std::string& flag, const char* text, double least, double most) {
  char* end = nullptr;
  const double number = text == nullptr ? 0 : std::strtod(text, &end);
  if (text == nullptr || end == text || *end != '\0' || !(number >= least) || number > most) {
    return wrong(flag + " needs a number, at least " + std::to_string(least));
  }
  return number;
}

// Seeds and counts have all of their 64 bits.
Result<uint64_t> read_count(const std::string& flag, const char* text) {
  char* end = nullptr;
  errno = 0;
  const uint64_t number = text == nullptr ? 0 : std::strtoull(text, &end, 10);
  if (text == nullptr || end == text || *end != '\0' || errno != 0 || *text == '-') {
    return wrong(flag + " needs a whole number");
  }
  return number;
}

Result<void> read_kinds(const std::string& text, Options& options) {
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, end - at);
    const auto fault = simulator::fault_from_name(name);
    if (!fault) return wrong("--without " + name + ": no such kind of fault");
    options.without[static_cast<size_t>(*fault)] = true;
    at = end + 1;
  }
  return {};
}

Result<void> read_flag(const std::string& flag, const char* value, Options& options) {
  if (flag == "--without") {
    return value == nullptr ? Result<void>(wrong("--without needs kinds of faults"))
                            : read_kinds(value, options);
  }
  if (flag == "--seconds" || flag == "--hours") {
    ASSIGN_OR_RETURN(const double number, read_number(flag, value, 0.001, 1e6));
    options.seconds = flag == "--hours" ? number * 3600 : number;
    options.worlds = 0;
    return {};
  }
  ASSIGN_OR_RETURN(const uint64_t count, read_count(flag, value));
  if (flag == "--seed") {
    options.first_seed = count;
  } else if (flag == "--worlds") {
    if (count == 0) return wrong("--worlds needs at least one");
    options.worlds = count;
  } else if (flag == "--threads") {
    if (count > 1024) return wrong("--threads takes at most 1024");
    options.threads = static_cast<unsigned>(count);
  } else if (flag == "--replay") {
    options.replay = true;
    options.first_seed = count;
  } else if (flag == "--arrivals") {
    options.most_arrivals = count;
  } else if (flag == "--trace") {
    options.trace = count;
  } else {
    return wrong("there is no " + flag);
  }
  return {};
}

}  // namespace

Result<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    // A bare number is seconds.
    if (argv[i][0] != '-') {
      RETURN_IF_ERROR(read_flag("--seconds", argv[i], options));
      --i;
      continue;
    }
    RETURN_IF_ERROR(read_flag(argv[i], i + 1 < argc ? argv[i + 1] : nullptr, options));
  }
  return options;
}

std::string usage() {
  std::string text =
      "soak [SECONDS] [--hours N] [--worlds N] [--seed FIRST] [--threads N]\n"
      "soak --replay SEED [--arrivals N] [--trace EVENTS]\n"
      "     [--without KIND,...]  of ";
  for (size_t i = 0; i < simulator::kFaults; ++i) {
    text += (i == 0 ? "" : i % 8 == 0 ? ",\n       " : ", ");
    text += name_of(static_cast<simulator::Fault>(i));
  }
  return text + "\n";
}

}  // namespace lambent::soak
