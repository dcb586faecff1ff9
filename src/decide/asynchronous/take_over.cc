#include "decide/asynchronous/take_over.h"

namespace lambent::asynchronous {

std::optional<std::string> next_of(Copy copy, const std::optional<std::string>& taker,
                                   const std::string& self) {
  switch (copy) {
    case Copy::kHere:
      return taker;
    case Copy::kComing:
      return std::nullopt;
    case Copy::kNone:
      break;
  }
  return self;
}

Prospect prospect_of(Copy copy, const std::optional<std::string>& taker) {
  if (copy == Copy::kNone) return Prospect::kUnknown;
  return copy == Copy::kHere && taker ? Prospect::kRuns : Prospect::kWaits;
}

std::vector<TenantFunction> TakeOver::choose(
    const std::vector<TenantFunction>& functions, size_t most,
    const std::function<Prospect(const TenantFunction&)>& of) {
  std::vector<TenantFunction> taken;
  for (const TenantFunction& function : functions) {
    const Prospect prospect = of(function);
    bool takes = prospect == Prospect::kRuns;
    if (prospect == Prospect::kUnknown) {
      Unknown& unknown = unknown_[function];
      unknown.round = round_;
      takes = ++unknown.looks > kMostLooks;
    } else {
      unknown_.erase(function);
    }
    if (takes) taken.push_back(function);
  }
  const bool is_last = functions.size() < most;
  after_ = is_last ? TenantFunction() : functions.back();
  if (!is_last) return taken;
  // Of those that were not seen in this round nothing is left.
  std::erase_if(unknown_, [this](const auto& each) { return each.second.round != round_; });
  ++round_;
  return taken;
}

}  // namespace lambent::asynchronous
