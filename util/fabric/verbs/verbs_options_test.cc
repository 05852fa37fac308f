#include "util/fabric/verbs/verbs_options.h"

#include <gtest/gtest.h>

namespace dlsm {
namespace {

// Fails if a part of the line is dropped or goes to another setting.
TEST(VerbsOptionsTest, ReadsDeviceAndSettings) {
  VerbsOptions options;
  ASSERT_TRUE(ParseVerbsOptions("mlx5_0:2,gid_index=3,mtu=1024,sl=5,retries=2", &options).ok());
  EXPECT_EQ(options.device, "mlx5_0:2");
  EXPECT_EQ(options.gid_index, 3);
  EXPECT_EQ(options.mtu_bytes, 1024);
  EXPECT_EQ(options.service_level, 5);
  EXPECT_EQ(options.retries, 2);
  EXPECT_EQ(options.ack_timeout, VerbsOptions().ack_timeout);
  ASSERT_TRUE(ParseVerbsOptions("ack_timeout=14", &options).ok());
  EXPECT_EQ(options.device, "mlx5_0:2");  // What is not said stays.
  EXPECT_EQ(options.ack_timeout, 14);
  ASSERT_TRUE(ParseVerbsOptions("", &options).ok());
  EXPECT_EQ(options.device, "");
}

// Fails if a way to connect is not understood, or is taken for another.
TEST(VerbsOptionsTest, ReadsHowToConnect) {
  VerbsOptions options;
  EXPECT_EQ(options.connect, VerbsConnect::kAuto);
  ASSERT_TRUE(ParseVerbsOptions("siw0,connection=cm,cm_port=7471", &options).ok());
  EXPECT_EQ(options.connect, VerbsConnect::kCm);
  EXPECT_EQ(options.cm_port, 7471);
  ASSERT_TRUE(ParseVerbsOptions("connection=hello", &options).ok());
  EXPECT_EQ(options.connect, VerbsConnect::kHello);
  ASSERT_TRUE(ParseVerbsOptions("connection=auto", &options).ok());
  EXPECT_EQ(options.connect, VerbsConnect::kAuto);
}

// Fails if a typing error is taken for a wish.
TEST(VerbsOptionsTest, NamesWhatIsWrong) {
  for (const char* text :
       {"rxe0,mtu", "rxe0,mtu=", "rxe0,mtu=1000", "rxe0,mtu=8192", "rxe0,colour=3", "rxe0,sl=16",
        "rxe0,sl=-1", "rxe0,sl=1x", "rxe0,,sl=1", "rxe0,depth=99999999999999999999",
        "rxe0,connection", "rxe0,connection=", "rxe0,connection=CM", "rxe0,cm_port=65536",
        "rxe0,connection=cm,gid_index=1"}) {
    VerbsOptions options;
    options.device = "kept";
    const Status status = ParseVerbsOptions(text, &options);
    EXPECT_TRUE(status.IsInvalidArgument()) << text << ": " << status.ToString();
    EXPECT_EQ(options.device, "kept");
  }
}

}  // namespace
}  // namespace dlsm
