// How the emulated driver asks lambent-bundle for host code of PTX (decision 0173): it writes the
// modules into a folder, runs `lambent-bundle compile-ptx FOLDER` and reads its standard output.
// Pure; used by both.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lambent::cuda_abi {

inline constexpr size_t kMostPtxBytes = size_t{64} << 20;  // of all modules of a job
inline constexpr int kPtxJobMost_s = 300;                  // for all compilers that it runs

inline std::string ptx_job_input(size_t number) { return std::to_string(number) + ".ptx"; }
inline constexpr const char* kPtxJobOutput = "module.so";

// PTX of a kernel bundle begins with this line. The bundle has an image for the host as well, which
// knows more (how long kernels take), so the emulated driver refuses such PTX.
inline constexpr std::string_view kPtxOfBundle =
    "// lambent-bundle: beside an image for the host\n";

// The answer is this word and an outcome's name in a line, and behind it what is to be told.
inline constexpr std::string_view kPtxJobAnswer = "ptx: ";

enum class PtxJobOutcome { kMade, kInvalid, kUnsupported, kNoCompiler, kTooMuch, kFailed };

inline constexpr std::array<const char*, 6> kPtxJobOutcomes = {
    "made", "invalid", "unsupported", "no compiler", "too much", "failed"};

inline const char* name_of(PtxJobOutcome outcome) {
  return kPtxJobOutcomes[static_cast<size_t>(outcome)];
}

struct PtxJobAnswer {
  PtxJobOutcome outcome;
  std::string message;
};

// Of all that the process wrote; none if it ended without an answer.
inline std::optional<PtxJobAnswer> read_ptx_job_answer(std::string_view written) {
  size_t at =
      written.starts_with(kPtxJobAnswer) ? 0 : written.find("\n" + std::string(kPtxJobAnswer));
  if (at == std::string_view::npos) return std::nullopt;
  at = written.find(kPtxJobAnswer, at) + kPtxJobAnswer.size();
  const size_t end = std::min(written.find('\n', at), written.size());
  for (size_t i = 0; i < kPtxJobOutcomes.size(); ++i) {
    if (written.substr(at, end - at) != kPtxJobOutcomes[i]) continue;
    const std::string_view message = written.substr(std::min(end + 1, written.size()));
    return PtxJobAnswer{static_cast<PtxJobOutcome>(i), std::string(message)};
  }
  return std::nullopt;
}

}  // namespace lambent::cuda_abi
