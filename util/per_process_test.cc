#include "port/per_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <new>
#include <stdexcept>

#include "port/process_mark.h"
#include "util/child_testing.h"

namespace dlsm {
namespace {

// Fails if a child takes what its parent made for its own, or the other way round.
TEST(ProcessMarkTest, AChildIsAnotherProcess) {
  const port::ProcessMark parents;
  EXPECT_TRUE(parents.IsHere());
  EXPECT_EQ(parents.process(), getpid());
  InChild([&parents] {
    EXPECT_FALSE(parents.IsHere());
    EXPECT_EQ(parents.process(), getppid());
    const port::ProcessMark childs;
    EXPECT_TRUE(childs.IsHere());
    EXPECT_EQ(childs.process(), getpid());
    InChild([&parents, &childs] {
      EXPECT_FALSE(parents.IsHere());
      EXPECT_FALSE(childs.IsHere());
    });
    EXPECT_TRUE(childs.IsHere());
  });
  EXPECT_TRUE(parents.IsHere());
}

struct Noticed {
  explicit Noticed(int* count) : destroyed(count) {}
  ~Noticed() { ++*destroyed; }
  int* const destroyed;
};

// Fails if a child destroys what its parent made, or if nobody destroys what this process made.
TEST(ProcessMarkTest, OnlyItsProcessDestroysWhatIsOwned) {
  int destroyed = 0;
  {
    const port::OwnedHere<Noticed> owned(std::make_unique<Noticed>(&destroyed).release());
    InChild([&destroyed, &owned] {
      { const port::OwnedHere<Noticed> moved(owned.get(), owned.get_deleter()); }
      EXPECT_EQ(destroyed, 0);
      { const port::OwnedHere<Noticed> own(std::make_unique<Noticed>(&destroyed).release()); }
      EXPECT_EQ(destroyed, 1);
    });
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
}

struct Interface {
  virtual ~Interface() = default;
};

class Implementation final : public Interface {
 public:
  Implementation(int* destroyed, bool fails) : member_(destroyed) {
    if (fails) throw std::runtime_error("as asked");
  }
  static void operator delete(void* memory) { ::operator delete(memory); }
  static void operator delete(Implementation* object, std::destroying_delete_t) {
    port::DestroyHere(object, object->made_by_);
  }

 private:
  const port::ProcessMark made_by_;
  const Noticed member_;
};

// Fails if a member's destructor runs in a child when somebody deletes the object there through its
// interface. With a sanitizer, also if memory is lost when the constructor throws.
TEST(ProcessMarkTest, WhatUsersDeleteIsDestroyedByItsProcessOnly) {
  int destroyed = 0;
  std::unique_ptr<Interface> object = std::make_unique<Implementation>(&destroyed, false);
  InChild([&destroyed, &object] {
    object.reset();
    EXPECT_EQ(destroyed, 0);
  });
  object.reset();
  EXPECT_EQ(destroyed, 1);
  EXPECT_THROW(std::make_unique<Implementation>(&destroyed, true), std::runtime_error);
  EXPECT_EQ(destroyed, 2);
}

// Fails if a child uses, or destroys, the object of its parent; or if a process gets two.
TEST(PerProcessTest, AChildHasOneOfItsOwn) {
  int destroyed = 0;
  port::PerProcess<Noticed> each;
  const Noticed* const first = &each.Here(&destroyed);
  EXPECT_EQ(&each.Here(&destroyed), first);
  InChild([&each, &destroyed, first] {
    const Noticed* const childs = &each.Here(&destroyed);
    EXPECT_NE(childs, first);
    EXPECT_EQ(&each.Here(&destroyed), childs);
    each.Clear();
    EXPECT_EQ(destroyed, 1);
  });
  InChild([&each, &destroyed] {
    each.Clear();
    EXPECT_EQ(destroyed, 0);
  });
  each.Clear();
  EXPECT_EQ(destroyed, 1);
}

}  // namespace
}  // namespace dlsm
