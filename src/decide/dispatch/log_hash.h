// LogHash: a rolling 64-bit hash over every event that dispatch saw and every action it wanted, so
// that two runs can be compared by one number. A value; owned by Dispatcher.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "core/base/state_archive.h"
#include "decide/dispatch/action.h"
#include "decide/dispatch/event.h"
#include "decide/dispatch/field_visitor.h"

namespace lambent::dispatch {

// The journal keeps its low bits after each event: an event or action hashes as it always did.
class LogHash {
 public:
  uint64_t value() const { return state_; }
  void add(const Event& event, Instant now);
  template <typename Kind>
  requires std::is_constructible_v<Action, Kind>
  void add(const Kind& action) {
    constexpr uint64_t kind = kFirstAction + index_of<Kind>();
    Group group(*this, kind);
    Kind::fields(action, group);
    group.end();
  }
  void archive(StateArchive& archive) { archive.field(state_); }

 private:
  // What tells the kinds apart; events have their index.
  static constexpr uint64_t kFirstAction = 64;

  template <typename Kind, size_t Index = 0>
  static constexpr size_t index_of() {
    if constexpr (std::is_same_v<std::variant_alternative_t<Index, Action>, Kind>) {
      return Index;
    } else {
      return index_of<Kind, Index + 1>();
    }
  }

  // A visitor of fields. The words of one group do not wait for each other, only the next group for
  // them all: this is on the path of every decision.
  class Group {
   public:
    Group(LogHash& hash, uint64_t kind) : hash_(hash), kind_(kind), sum_(scrambled(kind, 0)) {}

    void word(uint64_t word) { sum_ += scrambled(word, ++place_); }
    void end() { hash_.state_ = scrambled(hash_.state_ + sum_, ++place_); }

    template <typename Field>
    void operator()(std::string_view, const Field& field) {
      word(word_of(field));
    }
    void operator()(std::string_view, const InvocationId& id) {
      word(id.high);
      word(id.low);
    }
    template <unsigned, typename Field>
    void flag(std::string_view, const Field& field) {
      word(word_of(field));
    }
    template <typename... Bools>
    void flags(std::string_view, const Bools&... bools) {
      word(bits_of(bools...));
    }
    template <typename... Bools>
    void bits(std::string_view, const Bools&... bools) {
      word(bits_of(bools...));
    }
    void within(std::string_view, double field, double, double) { word(word_of(field)); }
    template <typename Field>
    void unhashed(std::string_view, const Field&) {}
    template <typename Field>
    void maybe(std::string_view, const std::optional<Field>& field) {
      word(field ? 1 : 0);
      word(field ? word_of(*field) : 0);
    }
    template <unsigned, typename Field>
    void unless_zero(std::string_view, const Field& field) {
      if (word_of(field) == 0) return;
      begin_another();
      word(word_of(field));
    }
    template <unsigned, typename Fields>
    void part(bool set, Fields fields) {
      only_if(set, fields);
    }
    template <typename Fields>
    void only_if(bool set, Fields fields) {
      if (!set) return;
      begin_another();
      fields(*this);
    }

   private:
    void begin_another() {
      end();
      sum_ = scrambled(kind_, 0);
      place_ = 0;
    }

    LogHash& hash_;
    uint64_t kind_;
    uint64_t sum_;
    uint64_t place_ = 0;
  };

  // A different function of the word at every place.
  static uint64_t scrambled(uint64_t word, uint64_t place) {
    const uint64_t factor = 0x9e3779b97f4a7c15ULL * (2 * place + 1);
    const auto product = static_cast<unsigned __int128>(word ^ 0xd6e8feb86659fd93ULL) * factor;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  uint64_t state_ = 0x6c616d62656e74ULL;
};

}  // namespace lambent::dispatch
