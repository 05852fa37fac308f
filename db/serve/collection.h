// A key that has elements: a hash, a set, a sorted set or a list. The head has how many there are;
// each element is an entry of its own, so that a command costs what it touches.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "dLSM/slice.h"
#include "db/serve/command.h"
#include "db/serve/records.h"

namespace dlsm::serve {

// Of one command.
class Collection {
 public:
  // Whether the key may be used as such a collection: false if it has something else, which has
  // been answered then. There may be none: then it is empty, and Put() makes it.
  static bool Open(const Call& call, const Slice& key, Type type,
                   std::optional<Collection>* opened);

  bool exists() const { return head_.collection != 0; }
  int64_t count() const { return count_; }
  // A list's: the position of its first element, which is not that of a list that is made anew.
  int64_t first() const { return first_; }
  void set_first(int64_t first) { first_ = first; }

  // `place`: what distinguishes the element from the others. Stays valid as what Round::Get()
  // returns.
  std::optional<Slice> Get(const Slice& place) const;
  // Without counting it. False, and the answer is an error, if no collection can be made.
  bool Put(const Slice& place, const Slice& value);
  void Delete(const Slice& place);
  void AddToCount(int64_t change) { count_ += change; }
  // Calls use(place, value) for the elements with places in [from, to) of this collection; empty
  // `to`: to the last.
  void Scan(const Slice& from, const Slice& to, bool reverse,
            const std::function<bool(const Slice& place, const Slice& value)>& use) const;

  // Writes the head, or deletes the key if it has no elements left. To be called when something has
  // been changed.
  void Save();

 private:
  Collection(const Call* call, const Slice& key, const Head& head)
      : call_(*call), key_(key), head_(head) {}

  const Call& call_;
  const Slice key_;
  Head head_;
  int64_t count_ = 0;
  int64_t first_ = 0;
};

}  // namespace dlsm::serve
