# Run by CPack on the components' folders before packaging. Adds the files required by Debian in
# every package (copyright, changelog, overrides for lintian), and compresses and strips files as
# required.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  set(ENV{SOURCE_DATE_EPOCH} ${CPACK_CUSPAN_DATE})
endif()
execute_process(COMMAND date --utc --rfc-email --date=@$ENV{SOURCE_DATE_EPOCH}
                OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

function(compress file)
  execute_process(COMMAND gzip -9 --no-name --force ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX})
  set(documents ${root}/share/doc/${package})
  file(MAKE_DIRECTORY ${documents})

  file(COPY_FILE ${CPACK_CUSPAN_SOURCES}/deploy/debian/copyright ${documents}/copyright)
  file(WRITE ${documents}/changelog
"${package} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  compress(${documents}/changelog)
  file(GLOB pages ${root}/share/man/man1/*.1)
  foreach(page IN LISTS pages)
    compress(${page})
  endforeach()
  # CPack has stripped the programs, but kept the section with the compiler's name.
  file(GLOB_RECURSE files LIST_DIRECTORIES OFF ${root}/bin/* ${root}/lib/*)
  foreach(file IN LISTS files)
    file(READ ${file} magic LIMIT 4 HEX)
    if(magic STREQUAL "7f454c46" AND NOT IS_SYMLINK ${file})
      execute_process(COMMAND strip --strip-unneeded --remove-section=.comment --remove-section=.note ${file}
                      COMMAND_ERROR_IS_FATAL ANY)
    endif()
  endforeach()
  set(overrides ${CPACK_CUSPAN_SOURCES}/deploy/debian/${package}.lintian-overrides)
  if(EXISTS ${overrides})
    file(MAKE_DIRECTORY ${root}/share/lintian/overrides)
    file(COPY_FILE ${overrides} ${root}/share/lintian/overrides/${package})
  endif()
endforeach()
