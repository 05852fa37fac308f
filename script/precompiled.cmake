# The headers of others that most files include, compiled once: they are over a third of the time
# that a build with tests takes. Which headers a file needs it must include all the same: the library
# of a build without sanitizers is compiled without this, as a user compiles it.
option(DLSM_PRECOMPILED_HEADERS "Compile the headers that tests share once" ON)

set(precompiled_headers
    <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <deque> <fstream> <functional> <map>
    <memory> <mutex> <optional> <set> <sstream> <string> <string_view> <thread> <unordered_map>
    <utility> <vector> <fmt/core.h>)

set(empty_source ${CMAKE_CURRENT_BINARY_DIR}/empty.cc)
if(NOT EXISTS ${empty_source})
  file(WRITE ${empty_source} "")
endif()

if(DLSM_PRECOMPILED_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # The compiler's cache brings such a file back with another time.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

# For what the library consists of.
if(DLSM_PRECOMPILED_HEADERS AND DLSM_SANITIZE)
  add_library(dlsm_headers OBJECT ${empty_source})
  target_link_libraries(dlsm_headers PRIVATE dlsm_settings)
  target_precompile_headers(dlsm_headers PRIVATE ${precompiled_headers})
endif()
function(dlsm_precompile name)
  if(TARGET dlsm_headers)
    target_precompile_headers(${name} REUSE_FROM dlsm_headers)
  endif()
endfunction()

# For tests. The library that they test is optimised as ever; to optimise the tests, too, would take
# twice as long. Under a sanitizer they are optimised, too: without, those that compute much (models,
# the linearizability checker) take longer to run than their compiler saves.
# With so little of it, GCC 12 sees overflows in std::string's operator+ that are not there.
set(dlsm_test_options $<$<CONFIG:Release>:-O1>
    "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-array-bounds;-Wno-stringop-overread>")
function(dlsm_compile_tests name)
  target_compile_options(${name} PRIVATE ${dlsm_test_options})
  if(NOT DLSM_PRECOMPILED_HEADERS)
    return()
  endif()
  # A program as they are: what is compiled for a library does not fit a program.
  if(NOT TARGET dlsm_test_headers)
    add_executable(dlsm_test_headers EXCLUDE_FROM_ALL ${empty_source})
    target_link_libraries(dlsm_test_headers PRIVATE dlsm_settings GTest::gmock GTest::gtest_main)
    target_compile_options(dlsm_test_headers PRIVATE ${dlsm_test_options})
    target_precompile_headers(dlsm_test_headers PRIVATE ${precompiled_headers} <gtest/gtest.h>
                              <gmock/gmock.h>)
  endif()
  target_precompile_headers(${name} REUSE_FROM dlsm_test_headers)
endfunction()
