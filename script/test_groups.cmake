# Included by ctest: makes tests of the cases of one Google Test program, some cases of a suite in one
# process. A process for each case took longer to start, with a sanitizer for half a second, than most
# cases run.
#
# A group of which no case runs fails.
#
# In: dlsm_program, its path; dlsm_name, its name; dlsm_cases, the most in one process;
# dlsm_left_out, the suites that do not run in this build (a regular expression, or empty);
# dlsm_properties, of each test; dlsm_groups, the file that is made.
if(NOT EXISTS "${dlsm_program}")
  add_test(${dlsm_name}.not_built ${dlsm_name}.not_built)
  return()
endif()

if(NOT EXISTS "${dlsm_groups}" OR "${dlsm_program}" IS_NEWER_THAN "${dlsm_groups}")
  execute_process(COMMAND "${dlsm_program}" --gtest_list_tests OUTPUT_VARIABLE listed
                  RESULT_VARIABLE result TIMEOUT 120)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${dlsm_program} --gtest_list_tests: ${result}\n${listed}")
  endif()
  # What parameters are, and what no line of a list may have.
  string(REGEX REPLACE " *#[^\n]*" "" listed "${listed}")
  string(REGEX REPLACE "[^\n]*main\\(\\)[^\n]*\n" "" listed "${listed}")
  string(REPLACE "\n" ";" listed "${listed}")

  set(text "")
  set(suite "")
  set(filter "")
  set(in_group 0)
  set(group 0)
  macro(dlsm_end_group)
    if(in_group GREATER 0)
      math(EXPR group "${group} + 1")
      string(REPLACE "/" "." test "${dlsm_name}.${suite}${group}")
      string(APPEND text "add_test([==[${test}]==] [==[${dlsm_program}]==] --gtest_brief=1 "
                         "[==[--gtest_filter=${filter}]==])\n"
                         "set_tests_properties([==[${test}]==] PROPERTIES ${dlsm_properties} "
                         "FAIL_REGULAR_EXPRESSION [==[\\] 0 tests from]==])\n")
      set(filter "")
      set(in_group 0)
    endif()
  endmacro()
  foreach(line IN LISTS listed)
    if(line MATCHES "^  (.*)$")
      set(case "${CMAKE_MATCH_1}")
      if(case MATCHES "^DISABLED_" OR (dlsm_left_out AND suite MATCHES "${dlsm_left_out}"))
        continue()
      endif()
      if(in_group GREATER 0)
        string(APPEND filter ":")
      endif()
      string(APPEND filter "${suite}${case}")
      math(EXPR in_group "${in_group} + 1")
      if(NOT in_group LESS most)
        dlsm_end_group()
      endif()
    else()
      dlsm_end_group()
      set(suite "${line}")
      set(group 0)
      # A child that fork() makes has what threads of earlier cases held, the allocator's lock of
      # AddressSanitizer for instance.
      set(most ${dlsm_cases})
      if(suite MATCHES "Fork|Child|Process")
        set(most 1)
      endif()
    endif()
  endforeach()
  dlsm_end_group()
  file(WRITE "${dlsm_groups}" "${text}")
endif()
include("${dlsm_groups}")
