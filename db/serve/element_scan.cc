#include "db/serve/element_scan.h"

#include <charconv>

#include "db/serve/keys.h"

namespace dlsm::serve {

bool ParseElementScan(const Call& call, ElementScan* scan) {
  const auto [end, error] =
      std::from_chars(call[2].data(), call[2].data() + call[2].size(), scan->cursor);
  if (error != std::errc() || end != call[2].end()) {
    call.reply.Error("ERR invalid cursor");
    return false;
  }
  for (size_t i = 3; i < call.count(); i += 2) {
    const bool has_value = i + 1 < call.count();
    if (has_value && call.Is(i, "match")) {
      scan->pattern = call[i + 1];
    } else if (has_value && call.Is(i, "count")) {
      if (!ParseInteger(call[i + 1], &scan->count)) {
        call.reply.Error(kNotAnInteger);
        return false;
      }
      if (scan->count < 1) {
        call.reply.Error(kSyntaxError);
        return false;
      }
    } else {
      call.reply.Error(kSyntaxError);
      return false;
    }
  }
  return true;
}

void AnswerElementScan(
    const Call& call, const ElementScan& scan, const Collection& collection, const Slice& prefix,
    const std::function<std::vector<std::string>(const Slice&, const Slice&)>& tell) {
  std::vector<std::string> found;
  std::optional<std::string> next;
  int64_t left = scan.count;
  const std::string position = call.server.cursors.Take(scan.cursor);
  const std::string from = position.empty() ? prefix.ToString() : position;
  collection.Scan(from, Slice(), /*reverse=*/false, [&](const Slice& place, const Slice& value) {
    if (!place.starts_with(prefix)) return false;
    if (left-- == 0) {
      next = place.ToString();
      return false;
    }
    Slice name = place;
    name.remove_prefix(prefix.size());
    if (!scan.pattern.has_value() || MatchesPattern(*scan.pattern, name)) {
      for (std::string& each : tell(name, value)) found.push_back(std::move(each));
    }
    return true;
  });
  call.reply.Array(2);
  call.reply.Bulk(std::to_string(next.has_value() ? call.server.cursors.Add(*next) : 0));
  call.reply.Array(found.size());
  for (const std::string& each : found) call.reply.Bulk(each);
}

}  // namespace dlsm::serve
