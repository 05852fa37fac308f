// What tests of followers share: owners that publish often, followers that look when they are told
// to, and batches by which each read can be seen to be of one point.
#pragma once

#include <memory>
#include <string>

#include "dLSM/db.h"
#include "dLSM/options.h"
#include "dLSM/status.h"
#include "dLSM/write_batch.h"
#include "util/random.h"

namespace dlsm {

Options OwnerOptions();
Options FollowerOptions();
std::unique_ptr<DB> FollowOrDie(const Options& options, const std::string& name);
// Goes on to a publication that has all that the owner has written so far.
void CatchUpWith(DB* owner, DB* follower);
// Of equal parts of the keys' first bytes.
void UseShards(Options* options, int shards);

// Eight keys all over the key range, of which each batch makes one number; and what lies between
// them is overwritten at random, so that flushes and merges have something to do.
class Batches {
 public:
  static constexpr int kKeys = 8;

  static std::string Key(int i) { return std::string(1, static_cast<char>(i * 32)) + "key"; }

  Status Write(DB* db) {
    WriteBatch batch;
    ++number_;
    for (int i = 0; i < kKeys; ++i) batch.Put(Key(i), std::to_string(number_));
    for (int i = 0; i < 4; ++i) {
      const std::string key = Key(static_cast<int>(random_.Uniform(kKeys))) + "filler" +
                              std::to_string(random_.Uniform(200));
      batch.Put(key, std::to_string(number_) + std::string(300, 'f'));
    }
    return db->Write(WriteOptions(), &batch);
  }
  int number() const { return number_; }

 private:
  int number_ = 0;
  Random random_{301};
};

// What all of the keys say, checked to be one number: by MultiGet, or by an iterator that has been
// made before. -1: nothing has been written.
int NumberOf(DB* db);
int NumberOf(Iterator* iterator);

}  // namespace dlsm
