# cuspan_runtime_links(TARGET [FOLDER folder] [NO_INSTALL]): puts a client library
# where it is found: FOLDER (lib/cuspan of the build tree, which is what is
# installed), with links to it under the names of libcudart in FOLDER/runtime.
# The links are relative, so that the folder can be moved.
function(cuspan_runtime_links target)
  cmake_parse_arguments(arg "NO_INSTALL" "FOLDER" "" ${ARGN})
  if(NOT arg_FOLDER)
    set(arg_FOLDER ${CMAKE_BINARY_DIR}/lib/cuspan)
  endif()
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${arg_FOLDER})
  file(MAKE_DIRECTORY ${arg_FOLDER}/runtime)
  if(NOT arg_NO_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION lib/cuspan)
  endif()
  foreach(version 11.0 12 13)
    set(link ${arg_FOLDER}/runtime/libcudart.so.${version})
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink ../$<TARGET_FILE_NAME:${target}> ${link} VERBATIM)
    if(NOT arg_NO_INSTALL)
      install(FILES ${link} DESTINATION lib/cuspan/runtime)
    endif()
  endforeach()
endfunction()
