// FlowSet: a set of functions, one bit each, that is walked in the order of their ids: in a time
// that depends on how many are in it, and hardly on how many there are. A value; kept by dispatch
// beside the flows.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "core/base/ids.h"

namespace lambent::scheduling {

class FlowSet {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  bool contains(FunctionId function) const {
    const size_t word = function.value / kBits;
    return word < words_.size() && (words_[word] & bit_of(function)) != 0;
  }

  // The first after this one, which need not be in it; after the last comes the first. There must
  // be one.
  FunctionId after(FunctionId function) const {
    const size_t word = function.value / kBits;
    if (word < words_.size()) {
      const uint64_t later = words_[word] & ~(bit_of(function) | (bit_of(function) - 1));
      if (later != 0) return first_in(word, later);
    }
    const size_t from = word + 1;
    for (size_t each = from / kBits; each < used_.size(); ++each) {
      const uint64_t left =
          each == from / kBits ? used_[each] & (~uint64_t{0} << from % kBits) : used_[each];
      if (left != 0) return first_of_word(each, left);
    }
    size_t first = 0;
    while (used_[first] == 0) ++first;
    return first_of_word(first, used_[first]);
  }

  void put(FunctionId function, bool in) {
    const size_t word = function.value / kBits;
    if (word >= words_.size()) {
      if (!in) return;
      words_.resize(word + 1);
      used_.resize(word / kBits + 1);
    }
    if (contains(function) == in) return;
    words_[word] ^= bit_of(function);
    if (words_[word] == 0 || words_[word] == bit_of(function)) {
      const uint64_t bit = uint64_t{1} << word % kBits;
      uint64_t& used = used_[word / kBits];
      used = words_[word] == 0 ? used & ~bit : used | bit;
    }
    in ? ++size_ : --size_;
  }

  void clear() {
    words_.clear();
    used_.clear();
    size_ = 0;
  }

  // The set must not change meanwhile.
  template <typename Visit>
  void for_each(Visit visit) const {
    any_of([&](FunctionId function) {
      visit(function);
      return false;
    });
  }

  // Whether `test` is true of one; those after it are not asked.
  template <typename Test>
  bool any_of(Test test) const {
    return any_bit_of(used_, [&](size_t word) {
      for (uint64_t left = words_[word]; left != 0; left &= left - 1) {
        if (test(FunctionId{static_cast<uint32_t>(word * kBits) +
                            static_cast<uint32_t>(std::countr_zero(left))})) {
          return true;
        }
      }
      return false;
    });
  }

 private:
  static constexpr size_t kBits = 64;
  static uint64_t bit_of(FunctionId function) { return uint64_t{1} << function.value % kBits; }
  static FunctionId first_in(size_t word, uint64_t left) {
    return FunctionId{static_cast<uint32_t>(word * kBits) +
                      static_cast<uint32_t>(std::countr_zero(left))};
  }
  FunctionId first_of_word(size_t of_used, uint64_t left) const {
    const size_t word = of_used * kBits + static_cast<size_t>(std::countr_zero(left));
    return first_in(word, words_[word]);
  }

  template <typename Test>
  static bool any_bit_of(const std::vector<uint64_t>& words, Test test) {
    for (size_t word = 0; word < words.size(); ++word) {
      for (uint64_t left = words[word]; left != 0; left &= left - 1) {
        if (test(word * kBits + static_cast<size_t>(std::countr_zero(left)))) return true;
      }
    }
    return false;
  }

  std::vector<uint64_t> words_;
  std::vector<uint64_t> used_;  // one bit for each of these that is not zero
  size_t size_ = 0;
};

}  // namespace lambent::scheduling
