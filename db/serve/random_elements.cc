#include "db/serve/random_elements.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "util/random.h"

namespace dlsm::serve {
namespace {

Random& OfThisThread() {
  static thread_local Random random(std::random_device{}());
  return random;
}

// The elements with these numbers in the order of places, which are ascending.
std::vector<std::string> ElementsAt(const Collection& collection,
                                    const std::vector<uint64_t>& numbers) {
  std::vector<std::string> elements;
  uint64_t number = 0;
  collection.Scan(Slice(), Slice(), /*reverse=*/false, [&](const Slice& place, const Slice&) {
    while (elements.size() < numbers.size() && numbers[elements.size()] == number) {
      elements.push_back(place.ToString());
    }
    ++number;
    return elements.size() < numbers.size();
  });
  return elements;
}

void Shuffle(std::vector<std::string>* elements) {
  for (size_t i = elements->size(); i > 1; --i) {
    std::swap((*elements)[i - 1], (*elements)[OfThisThread().Uniform(i)]);
  }
}

}  // namespace

// Floyd's choice of `wanted` numbers of `all`.
std::vector<std::string> ChooseDistinct(const Collection& collection, int64_t count) {
  const auto all = static_cast<uint64_t>(collection.count());
  const uint64_t wanted = std::min(all, static_cast<uint64_t>(count));
  std::vector<uint64_t> numbers;
  std::set<uint64_t> chosen;
  for (uint64_t i = all - wanted; i < all; ++i) {
    const uint64_t number = OfThisThread().Uniform(i + 1);
    chosen.insert(chosen.contains(number) ? i : number);
  }
  numbers.assign(chosen.begin(), chosen.end());
  std::vector<std::string> elements = ElementsAt(collection, numbers);
  Shuffle(&elements);
  return elements;
}

std::vector<std::string> ChooseAny(const Collection& collection, int64_t count) {
  if (collection.count() == 0) return {};
  std::vector<uint64_t> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(OfThisThread().Uniform(static_cast<uint64_t>(collection.count())));
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> elements = ElementsAt(collection, numbers);
  Shuffle(&elements);
  return elements;
}

}  // namespace dlsm::serve
