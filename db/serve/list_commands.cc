// Commands of lists. An element's place is its position; the first one's may be below zero, for a
// list grows at both ends.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "db/serve/collection.h"
#include "db/serve/command.h"
#include "db/serve/keys.h"

namespace dlsm::serve {
namespace {

std::string PlaceOf(int64_t position) {
  constexpr uint64_t kMiddle = uint64_t{1} << 63;
  std::string place;
  PutOrdered64(&place, static_cast<uint64_t>(position) + kMiddle);
  return place;
}

bool OpenList(const Call& call, std::optional<Collection>* list) {
  return Collection::Open(call, call[1], Type::kList, list);
}

void Push(Call& call, bool left, bool only_if_there) {
  std::optional<Collection> list;
  if (!OpenList(call, &list)) return;
  if (only_if_there && !list->exists()) return call.reply.Integer(0);
  for (size_t i = 2; i < call.count(); ++i) {
    const int64_t position = left ? list->first() - 1 : list->first() + list->count();
    if (!list->Put(PlaceOf(position), call[i])) return;
    if (left) list->set_first(position);
    list->AddToCount(1);
  }
  list->Save();
  call.reply.Integer(list->count());
}
void LPush(Call& call) { Push(call, /*left=*/true, /*only_if_there=*/false); }
void RPush(Call& call) { Push(call, /*left=*/false, /*only_if_there=*/false); }
void LPushX(Call& call) { Push(call, /*left=*/true, /*only_if_there=*/true); }
void RPushX(Call& call) { Push(call, /*left=*/false, /*only_if_there=*/true); }

// Deletes `count` elements at an end.
void DeleteAtEnd(Collection* list, bool left, int64_t count) {
  const int64_t begin = left ? list->first() : list->first() + list->count() - count;
  for (int64_t i = 0; i < count; ++i) list->Delete(PlaceOf(begin + i));
  if (left) list->set_first(begin + count);
  list->AddToCount(-count);
}

void Pop(Call& call, bool left) {
  if (call.count() > 3) return call.reply.Error(WrongNumber(call.command.name));
  const bool has_count = call.count() == 3;
  int64_t wanted = 1;
  if (has_count && (!ParseInteger(call[2], &wanted) || wanted < 0)) {
    return call.reply.Error("ERR value is out of range, must be positive");
  }
  std::optional<Collection> list;
  if (!OpenList(call, &list)) return;
  if (!list->exists()) return has_count ? call.reply.NullArray() : call.reply.Null();
  const int64_t count = std::min(wanted, list->count());
  if (has_count) call.reply.Array(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = left ? list->first() + i : list->first() + list->count() - 1 - i;
    call.reply.Bulk(list->Get(PlaceOf(position)).value_or(Slice()));
  }
  DeleteAtEnd(&*list, left, count);
  if (count > 0) list->Save();
}
void LPop(Call& call) { Pop(call, /*left=*/true); }
void RPop(Call& call) { Pop(call, /*left=*/false); }

void LLen(Call& call) {
  std::optional<Collection> list;
  if (OpenList(call, &list)) call.reply.Integer(list->count());
}

// Of a list with `count` elements: indexes from the end become such from the begin, and those
// beyond an end that end's. Returns false if the range is empty.
bool ClampRange(int64_t count, int64_t* start, int64_t* stop) {
  if (*start < 0) *start = std::max<int64_t>(0, *start + count);
  if (*stop < 0) *stop += count;
  *stop = std::min(*stop, count - 1);
  return *start <= *stop;
}

// Returns false if the answer is an error.
bool OpenListForRange(Call& call, int64_t* start, int64_t* stop, std::optional<Collection>* list) {
  if (ParseInteger(call[2], start) && ParseInteger(call[3], stop)) return OpenList(call, list);
  call.reply.Error(kNotAnInteger);
  return false;
}

void LRange(Call& call) {
  int64_t start = 0;
  int64_t stop = 0;
  std::optional<Collection> list;
  if (!OpenListForRange(call, &start, &stop, &list)) return;
  if (!ClampRange(list->count(), &start, &stop)) return call.reply.Array(0);
  call.reply.Array(static_cast<size_t>(stop - start + 1));
  list->Scan(PlaceOf(list->first() + start), PlaceOf(list->first() + stop + 1), /*reverse=*/false,
             [&call](const Slice&, const Slice& value) {
               call.reply.Bulk(value);
               return true;
             });
}

void LIndex(Call& call) {
  int64_t index = 0;
  if (!ParseInteger(call[2], &index)) return call.reply.Error(kNotAnInteger);
  std::optional<Collection> list;
  if (!OpenList(call, &list)) return;
  if (index < 0) index += list->count();
  if (index < 0 || index >= list->count()) return call.reply.Null();
  call.reply.Bulk(list->Get(PlaceOf(list->first() + index)).value_or(Slice()));
}

void LSet(Call& call) {
  int64_t index = 0;
  std::optional<Collection> list;
  if (!OpenList(call, &list)) return;
  if (!list->exists()) return call.reply.Error(kNoSuchKey);
  if (!ParseInteger(call[2], &index)) return call.reply.Error(kNotAnInteger);
  if (index < 0) index += list->count();
  if (index < 0 || index >= list->count()) return call.reply.Error("ERR index out of range");
  if (!list->Put(PlaceOf(list->first() + index), call[3])) return;
  list->Save();
  call.reply.Ok();
}

void LTrim(Call& call) {
  int64_t start = 0;
  int64_t stop = 0;
  std::optional<Collection> list;
  if (!OpenListForRange(call, &start, &stop, &list)) return;
  if (!list->exists()) return call.reply.Ok();
  if (!ClampRange(list->count(), &start, &stop)) {
    DeleteKey(call, call[1]);
    return call.reply.Ok();
  }
  const int64_t behind = list->count() - 1 - stop;
  DeleteAtEnd(&*list, /*left=*/false, behind);
  DeleteAtEnd(&*list, /*left=*/true, start);
  list->Save();
  call.reply.Ok();
}

}  // namespace

const std::vector<Command> kListCommands = {
    {"lpush", LPush, -3, kWrites | kFast, 1, 1, 1},
    {"rpush", RPush, -3, kWrites | kFast, 1, 1, 1},
    {"lpushx", LPushX, -3, kWrites | kFast, 1, 1, 1},
    {"rpushx", RPushX, -3, kWrites | kFast, 1, 1, 1},
    {"lpop", LPop, -2, kWrites | kFast, 1, 1, 1},
    {"rpop", RPop, -2, kWrites | kFast, 1, 1, 1},
    {"llen", LLen, 2, kReads | kFast, 1, 1, 1},
    {"lrange", LRange, 4, kReads, 1, 1, 1},
    {"lindex", LIndex, 3, kReads, 1, 1, 1},
    {"lset", LSet, 4, kWrites, 1, 1, 1},
    {"ltrim", LTrim, 4, kWrites, 1, 1, 1},
};

}  // namespace dlsm::serve
