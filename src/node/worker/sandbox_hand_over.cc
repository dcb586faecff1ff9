#include "node/worker/sandbox_hand_over.h"

#include <algorithm>
#include <utility>

#include "core/crypto/crypto.h"
#include "node/sandbox/message.h"

namespace lambent::worker {

std::string digest_of(sandbox::LaunchPlan plan) {
  plan.sandbox = {};
  plan.environment.erase("AWS_LAMBDA_LOG_STREAM_NAME");
  const crypto::Digest digest = crypto::sha256(encode(sandbox::LaunchRequest{std::move(plan)}));
  return std::string(crypto::bytes_of(digest));
}

// ---- From the program before

size_t SandboxHandOver::count(FunctionId function, const std::string& plan) const {
  return static_cast<size_t>(std::ranges::count_if(
      inherited_.record.sandboxes,
      [&](const KeptSandbox& each) { return each.function == function && each.plan == plan; }));
}

std::optional<SandboxHandOver::Inherited> SandboxHandOver::take(SandboxId sandbox,
                                                                FunctionId function,
                                                                const std::string& plan,
                                                                bool has_runtime_api) {
  std::vector<KeptSandbox>& all = inherited_.record.sandboxes;
  while (true) {
    const auto found = std::ranges::find_if(all, [&](const KeptSandbox& each) {
      return each.function == function && each.plan == plan &&
             each.waiting.has_value() == has_runtime_api;
    });
    if (found == all.end()) return std::nullopt;
    Inherited taken{.sandbox = std::move(*found)};
    all.erase(found);
    if (!launcher_.adopt(sandbox, taken.sandbox.launcher, taken.sandbox.number)) continue;
    taken.listener = inherited_.take(taken.sandbox.listener);
    taken.waiting = inherited_.take(taken.sandbox.waiting);
    taken.output = inherited_.take(taken.sandbox.output);
    taken.refusals = inherited_.take(taken.sandbox.refusals);
    taken.resting = inherited_.take(taken.sandbox.resting);
    taken.memory = inherited_.take(taken.sandbox.memory);
    return taken;
  }
}

size_t SandboxHandOver::end_inherited() {
  const size_t left = inherited_.record.sandboxes.size();
  inherited_ = {};
  launcher_.end_unadopted();
  return left;
}

// ---- To the next program

std::optional<DescriptorNumber> SandboxHandOver::add(OwnedFd descriptor) {
  if (!descriptor.valid()) return std::nullopt;
  descriptors_.push_back(std::move(descriptor));
  return static_cast<DescriptorNumber>(descriptors_.size() - 1);
}

std::vector<DescriptorNumber> SandboxHandOver::add(std::vector<OwnedFd> descriptors) {
  std::vector<DescriptorNumber> numbers;
  for (OwnedFd& each : descriptors) {
    if (const auto number = add(std::move(each))) numbers.push_back(*number);
  }
  return numbers;
}

KeptSandboxes SandboxHandOver::finish() {
  KeptSandboxes all;
  std::vector<SandboxId> ids;
  for (const Kept& each : kept_) ids.push_back(each.sandbox);
  if (ids.empty()) return all;
  std::vector<sandbox::HandedOverLauncher> launchers = launcher_.hand_over(ids);
  all.descriptors = std::exchange(descriptors_, {});
  for (sandbox::HandedOverLauncher& launcher : launchers) {
    const auto place = static_cast<uint32_t>(all.record.launchers.size());
    all.record.launchers.push_back(
        {.pid = launcher.pid, .channel = static_cast<DescriptorNumber>(all.descriptors.size())});
    all.descriptors.push_back(std::move(launcher.channel));
    for (const sandbox::HandedOverLauncher::Kept& stays : launcher.kept) {
      const auto found = std::ranges::find_if(
          kept_, [&](const Kept& each) { return each.sandbox == stays.sandbox; });
      if (found == kept_.end()) continue;
      KeptSandbox& kept = all.record.sandboxes.emplace_back(std::move(found->kept));
      kept.launcher = place;
      kept.number = stays.number;
    }
  }
  kept_.clear();
  return all;
}

}  // namespace lambent::worker
