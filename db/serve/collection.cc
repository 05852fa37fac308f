#include "db/serve/collection.h"

#include "db/serve/keys.h"
#include "util/coding.h"

namespace dlsm::serve {
namespace {

constexpr size_t kNumberBytes = sizeof(uint64_t);

}  // namespace

bool Collection::Open(const Call& call, const Slice& key, Type type,
                      std::optional<Collection>* opened) {
  const std::optional<Head> head = ReadHead(call, key);
  if (head.has_value() && head->type != type) {
    call.reply.Error(kWrongType);
    return false;
  }
  Head fresh;
  fresh.type = type;
  opened->emplace(Collection(&call, key, head.value_or(fresh)));
  if (!head.has_value()) return true;
  const size_t wanted = type == Type::kList ? 2 * kNumberBytes : kNumberBytes;
  if (head->value.size() != wanted) {
    call.round.Report(Status::Corruption("a collection has no head that dlsm_serve has written"));
    return false;
  }
  (*opened)->count_ = static_cast<int64_t>(DecodeFixed64(head->value.data()));
  if (type == Type::kList) {
    (*opened)->first_ = static_cast<int64_t>(DecodeFixed64(head->value.data() + kNumberBytes));
  }
  return true;
}

std::optional<Slice> Collection::Get(const Slice& place) const {
  if (!exists()) return std::nullopt;
  return call_.round.Get(ElementKey(head_.collection, place));
}

bool Collection::Put(const Slice& place, const Slice& value) {
  if (!exists()) {
    GiveUpElements(call_, key_);  // Of one that has expired.
    const Status made = call_.server.store->NewCollection(&head_.collection);
    if (!made.ok()) {
      call_.round.Report(made);
      return false;
    }
  }
  call_.round.Put(ElementKey(head_.collection, place), value);
  return true;
}

void Collection::Delete(const Slice& place) {
  call_.round.Delete(ElementKey(head_.collection, place));
}

void Collection::Scan(const Slice& from, const Slice& to, bool reverse,
                      const std::function<bool(const Slice&, const Slice&)>& use) const {
  if (!exists()) return;
  const size_t skipped = ElementKey(head_.collection, Slice()).size();
  const std::string end =
      to.empty() ? ElementKeyEnd(head_.collection) : ElementKey(head_.collection, to);
  call_.round.Scan(ElementKey(head_.collection, from), end, reverse,
                   [&](const Slice& key, const Slice& value) {
                     return use(Slice(key.data() + skipped, key.size() - skipped), value);
                   });
}

void Collection::Save() {
  if (count_ == 0) {
    DeleteKey(call_, key_);
    return;
  }
  std::string value;
  PutFixed64(&value, static_cast<uint64_t>(count_));
  if (head_.type == Type::kList) PutFixed64(&value, static_cast<uint64_t>(first_));
  Head head = head_;
  head.value = value;
  PutHead(call_, key_, head);
}

}  // namespace dlsm::serve
