// A set of a link's rails, by number. A rail's state is large, so loops visit only the one or two
// that exist.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace mlxcomm::link {

class RailSet {
 public:
  class Iterator {
   public:
    explicit Iterator(std::uint32_t left) : left_(left) {}
    std::size_t operator*() const { return static_cast<std::size_t>(std::countr_zero(left_)); }
    Iterator& operator++() {
      left_ &= left_ - 1;
      return *this;
    }
    friend bool operator==(Iterator, Iterator) = default;

   private:
    std::uint32_t left_;
  };

  void Add(std::size_t at) { rails_ |= std::uint32_t{1} << at; }
  void Remove(std::size_t at) { rails_ &= ~(std::uint32_t{1} << at); }
  bool Has(std::size_t at) const { return (rails_ >> at & 1) != 0; }
  std::size_t size() const { return static_cast<std::size_t>(std::popcount(rails_)); }
  // Returns whether `is` holds for one of them.
  template <typename Is>
  bool Any(Is is) const {
    for (const std::size_t at : *this) {
      if (is(at)) return true;
    }
    return false;
  }

  // Iterates over a copy: the set may change during the iteration.
  Iterator begin() const { return Iterator(rails_); }
  Iterator end() const { return Iterator(0); }

 private:
  std::uint32_t rails_ = 0;
};

}  // namespace mlxcomm::link
