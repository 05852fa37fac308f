// What tests of secondary indexes share: records that are lists of words, which are their index
// keys.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dLSM/secondary_index.h"
#include "util/random.h"
#include "util/status_testing.h"

namespace dlsm {

using Records = std::map<std::string, std::string>;
// (index key, record's key, value) of each result.
using Results = std::vector<std::vector<std::string>>;

// "red,round,red" has red and round.
inline void WordsOf(const Slice& /*key*/, const Slice& value, std::vector<std::string>* words) {
  std::string_view rest = value.ToStringView();
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    words->emplace_back(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
}

inline IndexDefinition WordIndex(IndexUpkeep upkeep, const std::string& name = "words") {
  return {name, WordsOf, upkeep};
}

inline std::unique_ptr<IndexedDB> OpenIndexed(DB* db, std::vector<IndexDefinition> indexes) {
  std::unique_ptr<IndexedDB> indexed;
  EXPECT_OK(IndexedDB::Open(db, std::move(indexes), {}, &indexed));
  return indexed;
}

inline Results Drained(std::unique_ptr<IndexIterator> it) {
  Results results;
  for (; it->Valid(); it->Next()) {
    results.push_back({it->index_key().ToString(), it->key().ToString(), it->value().ToString()});
  }
  EXPECT_OK(it->status());
  return results;
}

// What a query has to give: from `begin` on, and before `end` unless that is empty.
inline Results Expected(const Records& records, const std::string& begin, const std::string& end) {
  std::map<std::pair<std::string, std::string>, std::string> found;
  for (const auto& [key, value] : records) {
    std::vector<std::string> words;
    WordsOf(key, value, &words);
    for (const std::string& word : words) {
      if (word >= begin && (end.empty() || word < end)) found[{word, key}] = value;
    }
  }
  Results results;
  for (const auto& [place, value] : found) results.push_back({place.first, place.second, value});
  return results;
}

// A few words out of a few, some of which begin with others or have bytes that are escaped.
inline std::string RandomWords(Random& random) {
  static const std::vector<std::string> kWords = {
      "a",    "ab",       std::string("a\0", 2), std::string("a\0b", 3),   "b",
      "\xff", "\xff\xff", std::string("\0", 1),  std::string("\0\xff", 2), "c\x01",
      "c"};
  std::string words;
  for (uint64_t i = random.Uniform(4); i > 0; --i) {
    words += kWords[random.Uniform(kWords.size())] + ",";
  }
  return words;
}

}  // namespace dlsm
