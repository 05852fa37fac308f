# The headers of others that most files include, compiled once: they are a third of the time that
# a build takes. Which headers a file needs it must include all the same (script/check-includes).
option(DLSM_PRECOMPILED_HEADERS "Compile the headers that files share once" ON)

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

# Programs with a sanitizer's runtime are large, and fifty of them are linked.
find_program(LLD ld.lld)
if(LLD AND DLSM_SANITIZE)
  add_link_options(-fuse-ld=lld)
endif()

# For what the library consists of.
if(DLSM_PRECOMPILED_HEADERS)
  add_library(dlsm_headers OBJECT ${empty_source})
  target_link_libraries(dlsm_headers PRIVATE dlsm_settings)
  target_precompile_headers(dlsm_headers PRIVATE ${precompiled_headers})
endif()
function(dlsm_precompile name)
  if(TARGET dlsm_headers)
    target_precompile_headers(${name} REUSE_FROM dlsm_headers)
  endif()
endfunction()

# For tests. The library that they test is optimised as ever; to optimise the tests as much would take
# two to three times as long, which they do not save when they run. With a sanitizer a little is well
# spent: without it `table_test` takes 2.2 times as long, for the linker takes any copy of an inline
# function, a test's too.
# With so little of it, GCC 12 sees overflows in std::string's operator+ that are not there.
set(dlsm_test_options $<IF:$<OR:$<CONFIG:Release>,$<BOOL:${DLSM_SANITIZE}>>,-O1,-O0>
    "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-array-bounds;-Wno-stringop-overread>")

# Compiles up to so many files of a folder as one: most of a file's time goes into headers, which the
# others of its folder include, too. So names must be unique within a folder, even those in anonymous
# namespaces. The library is compiled like that with a sanitizer only: in the Release build each file
# stands on its own, but for the hot path.
option(DLSM_COMPILE_TOGETHER "Compile some files of a folder as one" ON)
function(dlsm_compile_together name most)
  get_target_property(is_test ${name} DLSM_TEST)
  if(NOT DLSM_COMPILE_TOGETHER OR NOT (DLSM_SANITIZE OR is_test))
    return()
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${name} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(source ${source} ABSOLUTE)
    file(RELATIVE_PATH folder ${CMAKE_CURRENT_SOURCE_DIR} ${source})
    get_filename_component(folder "${folder}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    math(EXPR files_${folder} "0${files_${folder}} + 1" OUTPUT_FORMAT DECIMAL)
    math(EXPR part "(${files_${folder}} - 1) / ${most}" OUTPUT_FORMAT DECIMAL)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${part})
  endforeach()
endfunction()

function(dlsm_compile_tests name)
  target_compile_options(${name} PRIVATE ${dlsm_test_options})
  set_target_properties(${name} PROPERTIES DLSM_TEST ON)
  dlsm_compile_together(${name} 8)
  if(NOT DLSM_PRECOMPILED_HEADERS)
    return()
  endif()
  # A program as they are: what is compiled for a library does not fit a program.
  if(NOT TARGET dlsm_test_headers)
    add_executable(dlsm_test_headers EXCLUDE_FROM_ALL ${empty_source})
    target_link_libraries(dlsm_test_headers PRIVATE dlsm_settings GTest::gmock GTest::gtest_main)
    target_compile_options(dlsm_test_headers PRIVATE ${dlsm_test_options})
    set_target_properties(dlsm_test_headers PROPERTIES DLSM_TEST ON)
    target_precompile_headers(dlsm_test_headers PRIVATE ${precompiled_headers} <gtest/gtest.h>
                              <gmock/gmock.h>)
  endif()
  target_precompile_headers(${name} REUSE_FROM dlsm_test_headers)
endfunction()
